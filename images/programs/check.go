package programs

import (
	"fmt"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// Check finds the programs for the images of all targets before anything is downloaded for them.
func Check(find func(arch string) ([]recipe.Binary, error), targets []matrix.Target) error {
	for _, t := range targets {
		_, err := find(t.Arch)
		if err != nil {
			return failure.Of(failure.Usage, fmt.Errorf("the programs for the image: %w", err))
		}
	}
	return nil
}
