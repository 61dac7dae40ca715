package verify

import "github.com/driver-container/driver-container/images/recipe"

// checkGuest: a vGPU guest without a working licence daemon becomes slow without an error, and an image
// without the label may be published by mistake.
func checkGuest(s *subject, find finder) {
	label := s.config.Config.Labels[recipe.LabelVGPU]
	_, ok := s.which(recipe.Gridd)
	switch {
	case label != "" && !ok:
		find(Error, recipe.Gridd, "is not there, or cannot be executed: a vGPU guest gets no licence without it")
	case label == "" && ok:
		find(Warning, recipe.Gridd, "is the licence daemon of vGPU guests, but the image has no label %s: nothing keeps it from public registries", recipe.LabelVGPU)
	}
}
