package status

import (
	"context"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/batch"
)

// Lacking asks the registry which architectures of each tag it lacks, and nothing else: whether an image is
// up to date is what [Due] finds out. The answers are in the order of the groups and never nil. A registry
// that does not answer is an error.
func Lacking(ctx context.Context, builder *images.Builder, repository string, groups []batch.Group) ([][]string, error) {
	s, err := newSurvey(builder)
	if err != nil {
		return nil, err
	}
	lacking := make([][]string, len(groups))
	errs := batch.Parallel(ctx, s.online.Jobs, len(groups), func(i int) error {
		lacking[i] = []string{}
		for _, im := range groups[i].Images {
			switch st := s.state(ctx, repository+":"+groups[i].Tag, im.Target.Arch, nil); st.State {
			case Unknown:
				return st.Err
			case Missing:
				lacking[i] = append(lacking[i], im.Target.Arch)
			}
		}
		return nil
	})
	return lacking, batch.JoinErrors(errs, func(i int) string { return groups[i].Tag })
}
