package failure

import (
	"errors"
	"fmt"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	network, content := New(Network, "it does not answer"), New(Content, "it is damaged")
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{nil, Unexpected},
		{errors.New("x"), Unexpected},
		{network, Network},
		{fmt.Errorf("deep: %w", fmt.Errorf("deeper: %w", network)), Network},
		{errors.Join(network, content), Content},
		{fmt.Errorf("%w: %w", network, content), Content},
		{Errorf(Usage, "asked for: %w", content), Usage},
		{Errorf(Step, "tried: %w", content), Content},
		{Of(Some, errors.New("x")), Some},
		{Of(Some, nil), Unexpected},
	} {
		assert.Equalf(t, c.want, KindOf(c.err), "%v", c.err)
	}
	assert.ErrorIs(t, Errorf(Usage, "asked for: %w", content), content)
	assert.Equalf(t, "it is damaged", content.Error(), "text")
}
