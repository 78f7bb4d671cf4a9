"""What the notebooks of the course use: pictures, prices, predictions, and what a card did.

The extra `notebooks` brings what pictures need: `pip install 'acl-py[notebooks]'`. `acl-py notebooks` writes the
notebooks for Jupyter; nothing else in acl_py uses this package.

    begin()                                   the first cell: sentences in place of tracebacks
    need("numba", install="numba-cuda")       a sentence where a package is missing
    guess = predict({"one stream": ...})      the reader writes; `guess.check(answers)` compares
    guess = predict_table(text)               the same for a table of "w" and "-"
    show({"one stream": sim.trace})           a picture of timelines, with its text and its page
    matrix(answers, guess)                    a picture of who waits for whom
    picture(figure, "what it shows")          any figure of matplotlib
    COLOURS["kernel"]                         the colour of a kind of work, as pictures and pages have it
    price(sim.trace)                          what each implicit wait of a run is worth
    report(sim.trace)                         the critical path, needless waits and findings, with their prices
    findings(sim)                             what the sanitizer found
    card("free-busy"), model("free-busy")     what an NVIDIA H200 did with a program, and what its model does
    await run(main, device="h200")            a program with a loop of its own, as a script has
    exercise(solved, "1,080 us")              the verdict on an exercise
    is_solved()                               whether the last one is solved: assignments of nbgrader ask for it
"""

from acl_py.teaching.measured import Measured as Measured
from acl_py.teaching.measured import card as card
from acl_py.teaching.measured import model as model
from acl_py.teaching.mistakes import NotebookError as NotebookError
from acl_py.teaching.mistakes import begin as begin
from acl_py.teaching.mistakes import need as need
from acl_py.teaching.pictures import Picture as Picture
from acl_py.teaching.pictures import matrix as matrix
from acl_py.teaching.pictures import picture as picture
from acl_py.teaching.pictures import show as show
from acl_py.teaching.predictions import Prediction as Prediction
from acl_py.teaching.predictions import predict as predict
from acl_py.teaching.predictions import predict_table as predict_table
from acl_py.teaching.scripts import run as run
from acl_py.teaching.texts import exercise as exercise
from acl_py.teaching.texts import findings as findings
from acl_py.teaching.texts import is_solved as is_solved
from acl_py.teaching.texts import price as price
from acl_py.teaching.texts import report as report
from acl_py.trace.views.colours import COLOURS as COLOURS
