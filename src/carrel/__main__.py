from carrel.cli import main

main()
