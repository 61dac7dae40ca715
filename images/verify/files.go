package verify

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/inventory"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// maxDifferences bounds the findings of checkFiles: an image of another build differs in
// everything.
const maxDifferences = 1000

// harmless are folders in which a difference from the list is a note, by the reason. Everything
// else can keep the driver or one of its users from working.
var harmless = map[string][]string{
	"certificates: a site adds its own": {
		"etc/ssl/certs", "etc/pki/ca-trust", "etc/pki/tls/certs", "usr/local/share/ca-certificates", "usr/share/ca-certificates",
	},
	"documents":        {"usr/share/doc", "usr/share/man", "usr/share/info"},
	"texts for people": {"usr/share/locale"},
	"nothing of the driver looks there": {
		"home",
		"root",
		"srv",
		"mnt",
		"media",
		"opt",
		"tmp",
		"var/tmp",
	},
	"caches are written again": {"var/cache"},
	"logs":                     {"var/log"},
	"nothing is read there unless the node mounts it": {"run"},
	"the container's own folder hides it":             {"proc", "sys", "dev"},
}

// used are the files and folders in harmless ones in which driver-entrypoint and the programs that
// it starts look. TestPathsOfPrograms in ci/lint compares them with the code.
var used = []string{
	"mnt/shared-nvidia-driver-toolkit", "opt/nvidia", "opt/rh",
	"run/driver-entrypoint", "run/driver-entrypoint.instance", "run/mellanox", "run/modprobe.d", "run/nvidia",
	"run/nvidia-fabricmanager", "run/nvidia-persistenced", "run/nvidia-topologyd", "run/secrets",
	"var/cache/nvlsm", "var/tmp/nvidia-driver", "var/tmp/nvidia-driver-headers",
}

// Harmless returns the reason why a difference of a path from the image's list of files is only a
// note, or "". added says that the list does not have the path. A new folder and other times are no
// difference at all: neither has an effect. Nothing is harmless in one of the named and used
// folders, in which programs look, and no folder above them: it may have become a link.
func Harmless(p string, added bool, named ...string) string {
	inside := func(dir string) bool { return p == dir || recipe.InFolder(p, dir) }
	around := func(dir string) bool { return recipe.InFolder(dir, p) }
	switch {
	case slices.ContainsFunc(named, inside),
		slices.ContainsFunc(used, inside),
		slices.ContainsFunc(used, around):
		return ""
	case !added && inside("opt"): // some systems have their compiler there
		return ""
	}
	for reason, dirs := range harmless {
		if slices.ContainsFunc(dirs, inside) {
			return reason
		}
	}
	return ""
}

// checkFiles compares the image with the list of its files that driver-build put in. The label has
// the digest of the list, and the image's digest covers the label.
func checkFiles(s *subject) {
	want := s.config.Config.Labels[recipe.LabelFiles]
	list, digest, err := inventory.Read(s.tree)
	switch {
	case errors.Is(err, fs.ErrNotExist) && want == "":
		if s.tree.Exists(driverinfo.Path) {
			s.find(
				Note,
				"",
				"the image has no list of its files, so that only what every driver image must have was checked: build it again",
			)
		}
		return
	case digest == "":
		s.fail(recipe.FileList, "the list of the image's files: %v", err)
		return
	case want == "":
		s.fail(
			recipe.FileList,
			"no label of the image has the digest of this list: the image was changed after driver-build made it",
		)
		return
	case digest != want:
		s.fail(recipe.FileList, "has digest %s, the image's label says %s", digest, want)
		return
	case err != nil:
		s.fail(recipe.FileList, "%v", err)
		return
	}
	s.recorded = list.Config
	if s.recorded == nil {
		s.find(
			Note,
			"",
			"the image has no record of its configuration, so that only labels and variables were checked which its description has: build it again",
		)
	}
	left := maxDifferences
	s.compare(list.Files, func(name, message string, added bool) {
		left--
		reason := Harmless(name, added, s.named()...)
		switch {
		case left == 0:
			s.fail(
				"",
				"more than %d differences from the list of the image's files: the rest is left out",
				maxDifferences,
			)
		case left < 0:
		case reason != "":
			s.find(Note, name, "%s (%s)", message, reason)
		default:
			s.fail(name, "%s", message)
		}
	})
}

// named are the files and folders that the configuration names, and those in which the dynamic
// loader looks.
func (s *subject) named() (all []string) {
	c := s.config.Config
	for _, word := range slices.Concat(c.Env, c.Entrypoint, c.Cmd) {
		for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return strings.ContainsRune(":=; \t\n'\"", r) }) {
			if p := strings.Trim(path.Clean(part), "/"); strings.HasPrefix(part, "/") && p != "" {
				all = append(all, p)
			}
		}
	}
	return slices.Concat(all, s.folders(all...), s.libraryDirs)
}

// compare calls differs for each path that is not as listed, and for each that is not listed.
func (s *subject) compare(list []inventory.File, differs func(name, message string, added bool)) {
	listed := make(map[string]bool, len(list))
	missing := map[string]bool{}
	for _, f := range list {
		listed[f.Path] = true
		e, ok := s.tree.Lstat(f.Path)
		if !ok {
			missing[f.Path] = true
			if !missing[path.Dir(f.Path)] { // of a folder that is gone, the folder is enough
				differs(f.Path, "is not there; driver-build put it into the image", false)
			}
			continue
		}
		is, err := inventory.FileOf(e)
		if err != nil {
			differs(f.Path, err.Error(), false)
			continue
		}
		if all := f.Differences(is); len(all) > 0 {
			differs(f.Path, strings.Join(all, ", ")+", as driver-build listed it", false)
		}
	}
	for _, e := range s.all {
		if e.Kind != rootfs.Dir && !listed[e.Path] && e.Path != recipe.FileList {
			differs(e.Path, "was added after driver-build made the image", true)
		}
	}
}

// digests computes the digests of all contents, on all cores, so that no rule waits for one. Errors
// show where a rule reads the content.
func (s *subject) digests(ctx context.Context) error {
	var eg errgroup.Group
	eg.SetLimit(runtime.GOMAXPROCS(0))
	for _, e := range s.all {
		if ctx.Err() != nil {
			break
		}
		if e.Kind == rootfs.File {
			eg.Go(func() error { _, _ = e.SHA256(); return nil })
		}
	}
	_ = eg.Wait()
	return ctx.Err()
}
