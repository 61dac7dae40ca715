// Package solve resolves dependencies of rpm packages: from what is installed, what is wanted and what repositories offer it
// finds the packages to add, as dnf does with best=True and without weak dependencies. Relations become clauses of a
// satisfiability problem; the solver learns from contradictions as libsolv does and prefers what libsolv prefers.
//
// It takes the packages of an rpm.Index and gives those to download. It does not fetch anything by itself, except that the
// index may fetch lists of files when it is asked for the owner of one.
package solve
