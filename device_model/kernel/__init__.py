"""What both kinds of kernels that run on simulated cores share: those for AI cores and those of thread blocks.

From the top down; each module imports only from those below it:

    tune                runs a kernel with each choice of its parameters, and makes a table
    launch              a launch as the work of an operation: private images of memory, published at its end
    images              one allocation as a launch sees it
    results             what a launch leaves behind
    stages              pipelines: stages, and the links between them
    advice              what a launch would save with a guideline followed
    findings            mistakes of kernels, and the errors that end them
    sites strands       lines of kernels; parts of a kernel that wait for one another
    blas garbage        what holds for the process while blocks run
    greenlets           the package greenlet
    printing            the formats of C's printf
    ranges              the range of numbers in a profile
"""
