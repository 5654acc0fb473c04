"""A small desk: short notes, each with a word or two that somebody would look for it by and that are not in it.

Written down before any score was looked at. Where there are few notes, words say little and meaning decides.
"""

from __future__ import annotations

from retrieval_sets import Retrieval, document

NOTES = """
Growing tomatoes | Sow indoors in March, plant out after the last frost, tie up, pinch out side shoots. | vegetables
Sourdough | Feed the starter the night before. Fold four times, prove in a basket, bake in a covered pot. | bread
Winter tyres | Booked the garage for the second week of November; the old set is in the cellar. | car
Quarterly review | Revenue is up eleven percent, churn is flat, hiring is frozen until January. | business results
Grandmother's birthday | She turns ninety in May. Ask the cousins about a table by the lake. | family party
Lisbon | Tram 28 early in the morning, custard tarts in Belem, the night train is cancelled. | travel ideas
Blood test | Iron is low again; take the tablets with orange juice and repeat in three months. | health
Backups | The script copies the database to the second disk every night at two and keeps a week. | data safety
Guitar | Practise barre chords with a metronome at sixty, ten minutes each day. | music
Mortgage | Fixed at 3.1 percent until 2031, overpayment allowed up to five percent a year. | money
Loft insulation | Lay the second layer of rock wool across the joists, leave the eaves open for air. | home improvement
Puppy class | Sit, stay and recall; bring treats and a long lead on Saturdays. | dog
Marathon plan | Long runs on Sunday, intervals on Wednesday, rest before the race. | exercise
Chess openings | Against the Sicilian play the Alapin; avoid sharp main lines for now. | games
Password manager | Moved all logins; the recovery sheet is in the safe deposit box. | security
Bees | Inspect the hive weekly in spring, look for queen cells, add a super when it is full. | insects
Thesis outline | Introduction, related work, method, evaluation, discussion. Chapter two is due in June. | university
Deploying | Tag the commit, wait for the pipeline, promote the image, watch the errors for an hour. | releasing software
Kitchen knives | Sharpen at fifteen degrees on the wet stone, strop on leather, never in the dishwasher. | cooking tools
Dentist | Crown on the upper left, second appointment on the ninth. | teeth
Solar panels | Twelve modules facing south, inverter in the garage, feed-in starts in April. | electricity
Japanese | Learn twenty kanji a week and read one easy news article each evening. | language learning
Rental contract | Three months' notice, deposit back within sixty days, walls to be painted white. | apartment
Retrospective | Too many meetings, reviews take days; try pairing and a limit on open work. | team
Aquarium | Change a quarter of the water weekly, test for nitrite, feed sparingly. | fish
Stargazing | Saturn is in opposition in September; take the small refractor up to the pass. | astronomy
Knitting | Cast on 120 stitches, rib for five centimetres, then stocking stitch to the armholes. | clothes
Compost | Green and brown in layers, turn monthly, keep it as damp as a wrung sponge. | garden soil
Onboarding | Laptop, accounts, a tour of the code base, lunch with the group, first ticket on day three. | new colleague
Allergy | Birch pollen from the end of March; drops in the morning, windows shut at night. | hay fever
Chicken curry | Fry the spices first, then onions, coconut milk at the end; rice on the side. | dinner recipe
Bicycle | New chain and brake pads, true the rear wheel, pump to four bar. | repairs
Insurance | Household contents up to fifty thousand; photograph the receipts of the instruments. | burglary
Photography | Golden hour by the harbour, tripod, ten stop filter, bracket the exposures. | camera
Tax return | Commuting, home office and donations; the deadline moved to the end of August. | finance office
Wine cellar | The Barolo wants five more years; drink the Riesling this summer. | drinks
Rain gauge | Forty millimetres in a day, the most since we began to write it down. | weather
Interview questions | Ask for a time when they disagreed with a decision, and what they did. | hiring
Slow queries | The planner ignores the index because the statistics are old; run analyze. | database performance
Wedding speech | Begin with how they met on the ferry, keep it under four minutes, end with a toast. | marriage
""".strip()


def small_desk() -> Retrieval:
    rows = [[part.strip() for part in line.split("|")] for line in NOTES.splitlines()]
    return Retrieval(
        "small desk",
        [document(title, title, text) for title, text, _ in rows],
        {title: asked for title, _, asked in rows},
        {title: {title: 1} for title, _, _ in rows},
    )
