# What other modules cimport from here are the modules of this package.
