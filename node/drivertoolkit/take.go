package drivertoolkit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/driver-container/driver-container/kmod/kbuild"
)

// take copies a set into Job.Work and checks the copy, which nobody else can change.
func (f folder) take(name string, j Job) (*kbuild.Set, error) {
	from := path.Join(modulesDir, name)
	raw, err := f.read(path.Join(from, kbuild.ManifestName))
	if err != nil {
		return nil, err
	}
	set, err := kbuild.ParseManifest(raw)
	if err != nil {
		return nil, err
	}
	key := set.Key
	switch hostile := func(text string) bool { return plain(text) != text }; {
	case !j.Fits(key):
		return nil, fmt.Errorf(
			"they are for driver %.40s (%.20s), kernel %.80s, or were compiled in another way",
			key.Driver,
			key.Flavour,
			key.Release,
		)
	case len(set.Certificate) > 0:
		return nil, errors.New("they are signed, and the toolkit container has no key")
	case slices.ContainsFunc([]string{key.Arch, key.Kernel, key.Compiler}, hostile):
		return nil, fmt.Errorf("their %s has control characters", kbuild.ManifestName)
	}
	set.Dir = filepath.Join(j.Work, "toolkit")
	err = errors.Join(os.RemoveAll(set.Dir), os.MkdirAll(set.Dir, 0o700))
	if err != nil {
		return nil, err
	}
	err = f.takeModules(from, set)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(set.Dir))
	}
	return set, nil
}

func (f folder) takeModules(from string, set *kbuild.Set) error {
	for i := range set.Modules {
		m := &set.Modules[i]
		m.Path = filepath.Join(set.Dir, m.Name+".ko")
		err := f.takeModule(path.Join(from, m.Name+".ko"), *m)
		if err != nil {
			return err
		}
	}
	return set.Describe()
}

// takeModule copies one module. The manifest bounds the sizes.
func (f folder) takeModule(from string, m kbuild.File) error {
	in, err := f.open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(m.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, m.Size))
	err = errors.Join(err, out.Close())
	if err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != m.SHA256 {
		return fmt.Errorf("%s has changed since it was stored", from)
	}
	return nil
}
