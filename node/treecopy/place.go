package treecopy

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// place is a folder of the tree during a copy.
type place struct {
	at     string
	depth  int
	lowers []*os.File // the layers that have the folder
	only   bool       // the folder is read in the only layer that has it, and not through the overlay
}

// enter opens a folder in the only layer that has it or, if there is no such layer, through the overlay.
func (c *copier) enter(src *os.File, name, at string, st *unix.Stat_t, parent place) (*os.File, place, error) {
	p := place{at: at, depth: parent.depth + 1, lowers: parent.lowers, only: parent.only}
	if !parent.only {
		p.lowers = having(parent.lowers, at)
		if from := c.image.only(p.lowers, at, st); from != nil {
			p.only = true
			return from, p, nil
		}
	}
	from, err := openAt(src, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil || !p.only || !special(from) {
		return from, p, err
	}
	from.Close()
	p.only, p.lowers = false, nil
	from, err = openIn(c.src, at)
	return from, p, err
}

// shareable returns the layer with whose file a file of the copy may share data, nil for none.
func (c *copier) shareable(at string, st *unix.Stat_t, p place) *os.File {
	switch {
	case len(p.lowers) == 0, c.image.clones && st.Size < smallestClone, !c.image.clones && !linkable(at, st):
		return nil
	case p.only:
		return p.lowers[0]
	}
	return c.image.find(p.lowers, at, st)
}

// having returns those of the layers that have a folder at this path.
func having(lowers []*os.File, at string) []*os.File {
	var have []*os.File
	for _, lower := range lowers {
		var st unix.Stat_t
		if unix.Fstatat(int(lower.Fd()), at, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			have = append(have, lower)
		}
	}
	return have
}

// only opens a folder in the only layer that has it. The overlay then shows exactly the content of that
// layer, so nothing below has to be compared, which is most of the work. It returns nil when another layer
// or the container has the folder, too, or when the overlay may show a different content, or when this
// cannot be found out. shown is the overlay's folder.
func (l *Layers) only(lowers []*os.File, at string, shown *unix.Stat_t) *os.File {
	if l.upper == nil || len(lowers) != 1 || l.metacopy || l.blind {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(l.upper.Fd()), at, &st, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, unix.ENOENT) {
		return nil
	}
	f, err := openAt(lowers[0], at, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	if unix.Fstat(int(f.Fd()), &st) != nil || !isSameFile(shown, &st) || shown.Ctim != st.Ctim || special(f) {
		f.Close()
		return nil
	}
	return f
}

// special says whether an overlay shows other content than the layer's folder has: that of a folder elsewhere
// (redirect), or all of it without the lower layers (opaque).
func special(dir *os.File) bool {
	for _, name := range []string{"trusted.overlay.redirect", "trusted.overlay.opaque"} {
		_, err := unix.Fgetxattr(int(dir.Fd()), name, nil)
		if !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP) {
			return true
		}
	}
	return false
}
