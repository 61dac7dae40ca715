package verify

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/recipe"
)

// checkDescription: the entrypoint refuses to start without the description of its image, and follows what it
// says.
func checkDescription(s *subject, find finder) {
	info, err := driverinfo.Read(s.tree.OpenFS())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, ours := s.which(recipe.EntrypointName); ours {
			find(Error, driverinfo.Path, "is not there: the entrypoint cannot know which driver it has")
		}
		return
	case err != nil:
		find(Error, driverinfo.Path, "%v", err)
		return
	}
	labels := s.config.Config.Labels
	for _, c := range []struct{ what, says, of, is string }{
		{"driver", info.Driver, "the libraries", s.version},
		{"driver", info.Driver, "the label", cmp.Or(labels[recipe.LabelDriver], info.Driver)},
		{"os", info.OS, "the label", cmp.Or(labels[recipe.LabelSystem], info.OS)},
		{"profile", info.Profile, "the label", cmp.Or(labels[recipe.LabelProfile], info.Profile)},
		{"arch", info.Arch, "the image", s.config.Architecture},
		{"flavours", sorted(info.Flavours), "the label", sorted(strings.Split(cmp.Or(labels[recipe.LabelFlavours], strings.Join(info.Flavours, ",")), ","))},
	} {
		if c.says != c.is {
			find(Error, driverinfo.Path, "%s is %q, that of %s is %q", c.what, c.says, c.of, c.is)
		}
	}
	checkOverridden(info.Overridden, labels[recipe.LabelOverridden], find)
	if !info.Toolchain && len(info.Precompiled) == 0 {
		find(Error, driverinfo.Path, "says that the image has neither modules nor a toolchain to compile them: no node can use it")
	}
	for _, flavour := range info.Flavours {
		if dir := recipe.KernelDir(info.Driver, flavour); !s.tree.Exists(dir) && s.tree.Exists("usr/src/nvidia-"+info.Driver) {
			find(Error, driverinfo.Path, "names the flavour %s, whose sources (%s) are not there", flavour, dir)
		}
	}
}

func sorted(words []string) string { return strings.Join(slices.Sorted(slices.Values(words)), ",") }

// checkOverridden compares names with the label, which has "name: reason" for each, with "; " between them. A
// reason may hold anything, so that the label is searched and not taken apart.
func checkOverridden(names []string, label string, find finder) {
	said := 0
	for _, name := range names {
		if strings.HasPrefix(label, name+": ") || strings.Contains(label, "; "+name+": ") {
			said++
		}
	}
	if said != len(names) || label != "" && said == 0 {
		find(Error, driverinfo.Path, "overridden rules are %q, the label says %q", strings.Join(names, ", "), label)
	}
}
