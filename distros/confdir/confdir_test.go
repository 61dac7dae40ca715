package confdir

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
)

func TestList(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{}
	for _, name := range []string{"a.list", "b.sources", "c.list~", ".d.list", "..data/a.list", "e.list/x"} {
		root["etc/d/"+name] = &fstest.MapFile{Data: []byte(name)}
	}
	assert.Same(t, []string{"etc/d/a.list", "etc/d/b.sources"}, require.Value(List(root, "etc/d", ".list", ".sources"))(t))
	assert.Same(t, []string{"etc/d/a.list", "etc/d/b.sources", "etc/d/c.list~"}, require.Value(List(root, "etc/d"))(t))
	assert.Equal(t, 0, len(require.Value(List(root, "etc/none", ".list"))(t)))
	var read []string
	err := Each(root, "etc/d", ".list", func(name string, data []byte) error {
		read = append(read, name+"="+string(data))
		return nil
	})
	assert.NoError(t, err)
	assert.Same(t, []string{"etc/d/a.list=a.list"}, read)
}

func TestBounds(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{"big": &fstest.MapFile{Data: []byte(strings.Repeat("#", maxFile+1))}}
	for n := range maxFiles + 1 {
		root[fmt.Sprint("many/", n)] = &fstest.MapFile{}
	}
	assert.ErrorIs(t, assert.Err(Read(root, "big")), distros.ErrSources)
	assert.ErrorIs(t, assert.Err(Optional(root, "big")), distros.ErrSources)
	assert.ErrorIs(t, assert.Err(List(root, "many")), distros.ErrSources)
	assert.Equal(t, 0, len(require.Value(Optional(root, "missing"))(t)))
}
