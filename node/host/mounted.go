package host

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/status"
)

// place is a folder that may have modules.
type place struct {
	cache  kbuild.Cache
	source string // status.FromImage, FromMounted or FromCache
}

// places returns the folders that are searched, in their order: the image, mounted images, the
// cache.
func (s *supply) places() []place {
	all := []place{{kbuild.Cache{Dir: cmp.Or(s.image, imageModules)}, status.FromImage}}
	for _, root := range s.cfg.ModuleImages {
		if dir, ok := mountedModules(root); ok {
			all = append(all, place{kbuild.Cache{Dir: dir}, status.FromMounted})
		}
	}
	return append(all, place{s.cache(), status.FromCache})
}

// mountedModules returns the folder with the modules of a mounted image. A link there leads nowhere
// outside of it.
func mountedModules(root string) (dir string, ok bool) {
	dir, err := kmod.Within(root, imageModules)
	if err != nil {
		return "", false
	}
	st, err := os.Stat(dir)
	return dir, err == nil && st.IsDir()
}

// find finds a set. Of a mounted one, whose makers this image does not know, nothing is believed:
// its modules have to be what its manifest says.
func (p place) find(ctx context.Context, fits func(kbuild.Key) bool) (*kbuild.Set, error) {
	set, err := p.cache.Find(ctx, fits)
	if err != nil || p.source != status.FromMounted {
		return set, err
	}
	if err := set.Describe(); err != nil {
		return nil, fmt.Errorf(
			"%w (%w)",
			kbuild.ErrMiss,
			&kbuild.CorruptError{Dir: set.Dir, Why: err.Error()},
		)
	}
	return set, nil
}

// lookBeside says of each mounted image without a fitting set what it has instead.
func (s *supply) lookBeside(w node.Want, fits func(kbuild.Key) bool) {
	const most = 4
	s.leftAlone = nil
images:
	for _, root := range s.cfg.ModuleImages {
		var has []string
		if dir, ok := mountedModules(root); ok {
			for _, k := range (kbuild.Cache{Dir: dir}).Keys() {
				if fits(k) {
					continue images
				}
				text := fmt.Sprintf("%s modules of driver %s for kernel %s (%.20s)", k.Flavour, k.Driver, k.Release, k.Arch)
				if sameNames(w, k) {
					text += ", of other sources or another build of the kernel"
				}
				has = append(has, text)
			}
		}
		if len(has) > most {
			has = append(has[:most], fmt.Sprintf("%d more", len(has)-most))
		}
		text := fmt.Sprintf("the module image at %s has %s", root, cmp.Or(strings.Join(has, ", "), "no modules in "+imageModules))
		s.leftAlone = append(s.leftAlone, text)
		s.logOnce(s.log.Info, text+": it is left alone")
	}
}

// logOnce logs a sentence that every search finds again.
func (s *supply) logOnce(log func(string, ...any), text string) {
	if _, before := s.logged.LoadOrStore(text, true); !before {
		log(text)
	}
}
