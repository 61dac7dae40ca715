package daemons

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func TestPersistenced(t *testing.T) {
	t.Parallel()
	if got := Persistenced(t.TempDir()); len(got) != 0 {
		t.Errorf("an empty image has %+v", got)
	}
	root := testfile.Tree(t, t.TempDir(), map[string]string{"usr/bin/nvidia-persistenced": ""})
	specs := Persistenced(root)
	if len(specs) != 1 || specs[0].Name != "nvidia-persistenced" {
		t.Fatalf("%+v", specs)
	}
	assert.Equal(t, root+"/var/run/nvidia-persistenced/socket", specs[0].Socket)
}
