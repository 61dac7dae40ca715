package programs

import (
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// Check finds the programs for the images of all targets before anything is downloaded for them. It
// returns what the images will lack.
func Check(
	find func(arch string) ([]recipe.Binary, error),
	targets []matrix.Target,
) (lacks []string, err error) {
	var checked []string
	for _, t := range targets {
		if slices.Contains(checked, t.Arch) {
			continue
		}
		checked = append(checked, t.Arch)
		found, err := find(t.Arch)
		if err != nil {
			return nil, failure.Of(failure.Usage, fmt.Errorf("the programs for the image: %w", err))
		}
		isProbe := func(b recipe.Binary) bool { return b.Name == recipe.ProbeName }
		if !slices.ContainsFunc(found, isProbe) {
			lacks = append(lacks, fmt.Sprintf(
				"images for %s have no %s: %s",
				t.Arch,
				recipe.ProbeName,
				recipe.WithoutProbe,
			))
		}
	}
	return lacks, nil
}
