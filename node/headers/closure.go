package headers

import (
	"fmt"
	"slices"
)

const maxPackages = 50 // of one kernel; in practice one to three

// closure adds the header packages that others need, and returns all of them, dependencies first.
// needs returns those that a package needs beside the chosen ones. The package managers would
// install all dependencies; the package comment says what these are.
func closure[P any](chosen []P, needs func(p P, chosen []P) ([]P, error)) ([]P, error) {
	for i := 0; i < len(chosen); i++ {
		if len(chosen) > maxPackages {
			return nil, fmt.Errorf(
				"the headers need more than %d packages: the repository is broken",
				maxPackages,
			)
		}
		more, err := needs(chosen[i], chosen)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, more...)
	}
	slices.Reverse(chosen)
	return chosen, nil
}

// lacking says that a repository does not have what a header package needs.
func lacking(p, needs any) error {
	return fmt.Errorf(
		"package %v needs %v, which the repositories do not have (a mirror in the middle of an update? then try again in some minutes)",
		p,
		needs,
	)
}
