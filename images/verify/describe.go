package verify

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/recipe"
)

// checkDescription: the entrypoint refuses to start without the description of its image, and follows what it
// says. Labels and variables repeat it.
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
	differs := func(what, want, of, is string) {
		if sorted(want) != sorted(is) {
			find(Error, driverinfo.Path, "%s is %q, %s %.200q", what, want, of, is)
		}
	}
	differs("driver", info.Driver, "that of the libraries is", s.version)
	differs("arch", info.Arch, "that of the image is", s.config.Architecture)
	want, labels := recipe.DescribedLabels(info), s.config.Config.Labels
	for _, name := range slices.Sorted(maps.Keys(want)) {
		what := strings.TrimPrefix(name[strings.LastIndexByte(name, '.'):], ".")
		differs(what, want[name], "the label "+name+" says", labels[name])
	}
	variables := recipe.Variables(info)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if is := s.env(name); is != variables[name] {
			find(Error, driverinfo.Path, "needs the variable %s=%s, the image has %.200q", name, variables[name], is)
		}
	}
	s.checkOtherLabels(info, find)
	if d, err := distros.Lookup(info.OS); err == nil {
		if id, version, err := osrelease.Read(s.tree.OpenFS()); err != nil || !distros.Userland(d).Matches(id, version) {
			find(Error, driverinfo.Path, "os is %q, etc/os-release says %q %q", info.OS, id, version)
		}
	}
	if !info.Toolchain && len(info.Precompiled) == 0 {
		find(Error, driverinfo.Path, "says that the image has neither modules nor a toolchain to compile them: no node can use it")
	}
	for _, flavour := range info.Flavours {
		if dir := recipe.KernelDir(info.Driver, flavour); !s.tree.Exists(dir) && s.tree.Exists("usr/src/nvidia-"+info.Driver) {
			find(Error, driverinfo.Path, "names the flavour %s, whose sources (%s) are not there", flavour, dir)
		}
	}
}

// sorted puts the words of a list in order: labels have the order of the request.
func sorted(list string) string {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	return strings.Join(slices.Sorted(slices.Values(words)), ",")
}

// checkOtherLabels checks those that the description has a part of.
func (s *subject) checkOtherLabels(info driverinfo.Description, find finder) {
	labels := s.config.Config.Labels
	said := labels[recipe.LabelOverridden] // "name: reason; name: reason", and a reason may hold anything
	if (said == "") != (len(info.Overridden) == 0) ||
		slices.ContainsFunc(info.Overridden, func(name string) bool { return !strings.Contains("; "+said, "; "+name+": ") }) {
		find(Error, driverinfo.Path, "overridden rules are %q, the label says %q", strings.Join(info.Overridden, ", "), said)
	}
	for tag := range strings.SplitSeq(labels[recipe.OCIPrefix+"version"]+","+labels[recipe.LabelAliases], ",") {
		if tag != "" && !strings.HasPrefix(tag, info.Driver+"-") && !strings.HasPrefix(tag, strings.TrimPrefix(info.Branch, "R")+"-") {
			find(Error, driverinfo.Path, "driver is %q of branch %s, a label names the tag %.200q", info.Driver, info.Branch, tag)
		}
	}
	signer := labels[recipe.LabelSigner]
	if len(s.sets) == 0 && signer != "" {
		find(Error, "", "the label %s is %.100q, and the image has no modules", recipe.LabelSigner, signer)
	}
	for _, m := range s.sets {
		if m.Damage == "" && m.Certificate != signer {
			find(Error, recipe.ModulesDir+"/"+m.Folder, "is signed with the certificate %q, the label %s says %.100q", m.Certificate, recipe.LabelSigner, signer)
		}
	}
}
