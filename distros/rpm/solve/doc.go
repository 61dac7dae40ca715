// Package solve resolves dependencies of rpm packages: from the installed packages, the requests
// and the packages of repositories it finds the packages to add, as dnf does with best=True and
// without weak dependencies. Relations become clauses of a satisfiability problem. The solver
// learns from contradictions as libsolv does, and has libsolv's preferences.
//
// It reads the packages of an rpm.Index and returns those to download. It does not download
// anything itself, but the index may download lists of files when it searches for the owner of a
// file.
package solve
