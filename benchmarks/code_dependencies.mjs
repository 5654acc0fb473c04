// What each file of a folder imports, as TypeScript itself reads and resolves it: node code_dependencies.mjs TYPESCRIPT FOLDER
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const [, , typescript, folder] = process.argv;
const ts = createRequire(import.meta.url)(typescript);
const root = fs.realpathSync(folder);
const config = ts.findConfigFile(root, ts.sys.fileExists, "tsconfig.json");
const fromConfig = config && config.startsWith(root) ? ts.parseConfigFileTextToJson(config, fs.readFileSync(config, "utf8")).config : {};
const manifest = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"));
// A condition of the package's own, such as "@zod/source", which its own settings name and do not ship with it.
const conditions = [...new Set(JSON.stringify(manifest.exports ?? {}).match(/"@[^"]+"(?=:)/g) ?? [])].map((each) => JSON.parse(each));
const options = {
  customConditions: conditions,
  allowJs: true,
  resolveJsonModule: true,
  allowArbitraryExtensions: false,
  moduleResolution: ts.ModuleResolutionKind.Bundler ?? ts.ModuleResolutionKind.NodeJs,
  module: ts.ModuleKind.ESNext,
  ...(fromConfig?.compilerOptions?.paths ? { paths: fromConfig.compilerOptions.paths, pathsBasePath: root } : {}),
};

function* files(at) {
  for (const entry of fs.readdirSync(at, { withFileTypes: true })) {
    if (entry.name === "node_modules" || entry.name === ".git") continue;
    const full = path.join(at, entry.name);
    if (entry.isDirectory()) yield* files(full);
    else if (/\.[cm]?[jt]sx?$/.test(entry.name) && fs.statSync(full).size <= 1024 * 1024) yield full;
  }
}

function specifiers(source) {
  const found = new Set();
  const literal = (node) => node && ts.isStringLiteralLike(node) && found.add(node.text);
  const visit = (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) literal(node.moduleSpecifier);
    else if (ts.isExternalModuleReference(node)) literal(node.expression);
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) literal(node.argument.literal);
    else if (ts.isCallExpression(node)) {
      const callee = node.expression;
      if (callee.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(callee) && callee.text === "require")) literal(node.arguments[0]);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const result = {};
for (const file of files(root)) {
  const source = ts.createSourceFile(file, fs.readFileSync(file, "utf8"), ts.ScriptTarget.Latest, false);
  const targets = {};
  for (const name of specifiers(source)) {
    const found = ts.resolveModuleName(name, file, options, ts.sys).resolvedModule?.resolvedFileName;
    if (found && found.startsWith(root + path.sep) && !found.includes("/node_modules/", root.length) && found !== file)
      targets[path.relative(root, found)] = name;
  }
  result[path.relative(root, file)] = targets;
}
process.stdout.write(JSON.stringify(result));
