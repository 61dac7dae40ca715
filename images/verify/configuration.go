package verify

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/strictjson"
)

// withoutEffect are the fields of a configuration that no container runtime looks at.
var withoutEffect = []string{"author", "container", "created", "docker_version", "history"}

// checkConfiguration compares the configuration with the one that driver-build recorded, and the
// manifest's annotations with the labels, which they repeat.
func checkConfiguration(s *subject) {
	labels := s.config.Config.Labels
	names := slices.Collect(maps.Keys(s.annotations))
	// some programs drop all annotations when they copy an image
	if slices.ContainsFunc(names, recipe.IsLabel) {
		names = slices.AppendSeq(names, maps.Keys(labels))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		label, labelled := labels[name]
		if is := s.annotations[name]; is != label && (labelled || recipe.IsLabel(name)) {
			s.fail(
				"",
				"annotation %.100q of the manifest is %.200q, the label %.200q",
				name,
				is,
				label,
			)
		}
	}
	if s.recorded == nil {
		return
	}
	want, err := json.Marshal(s.recorded)
	if err != nil {
		s.fail(recipe.FileList, "the recorded configuration: %v", err)
		return
	}
	differences, err := ConfigDifferences(want, s.rawConfig)
	if err != nil {
		s.fail("", "%v", err)
	}
	for _, d := range differences {
		sev := Error
		if slices.ContainsFunc(
			withoutEffect,
			func(field string) bool { return strings.HasPrefix(d, field) },
		) {
			sev = Note
		}
		s.find(sev, "", "%s: driver-build recorded another", d)
	}
}

// ConfigDifferences says in words which fields of a configuration are not those of another one:
// "config.User is "nobody", not set". It knows no field by its name, except those that the layer
// with the list of files makes: the digests of the layers, and the digest of that list.
func ConfigDifferences(want, is []byte) (all []string, err error) {
	before, errWant := fields(want)
	after, errIs := fields(is)
	if err := cmp.Or(errWant, errIs); err != nil {
		return nil, err
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch was, now := before[name], after[name]; {
		case was == now:
		case was == "":
			all = append(all, fmt.Sprintf("%.200s is %.200s, not set", name, now))
		case now == "":
			all = append(all, fmt.Sprintf("%.200s is not set, not %.200s", name, was))
		default:
			all = append(all, fmt.Sprintf("%.200s is %.200s, not %.200s", name, now, was))
		}
	}
	return all, nil
}

// fields are the fields of a configuration as JSON by their paths, without empty ones; each label
// and variable is one.
func fields(config []byte) (map[string]string, error) {
	doc, err := strictjson.Decode[map[string]any](config)
	if err != nil {
		return nil, fmt.Errorf("the image's configuration is malformed: %w", err)
	}
	delete(doc, "rootfs")
	all := map[string]string{}
	add := func(at string, v any) {
		if text, err := json.Marshal(v); err == nil { // it was JSON
			all[at] = string(text)
		}
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if len(v) == 0 { // such as a member of a set
				add(at, v)
			}
			for name, value := range v {
				walk(strings.TrimPrefix(at+"."+name, "."), value)
			}
		case []any:
			for n, value := range v {
				name := fmt.Sprintf("%s[%d]", at, n)
				if word, ok := value.(string); ok && at == "config.Env" {
					before, after, _ := strings.Cut(word, "=")
					name = at + "." + before
					if all[name] == "" {
						value = after
					} else { // one that is there twice keeps its place
						name = fmt.Sprintf("%s[%d]", name, n)
					}
				}
				add(name, value)
			}
		case nil:
		default:
			if !reflect.ValueOf(v).IsZero() {
				add(at, v)
			}
		}
	}
	walk("", doc)
	delete(all, "config.Labels."+recipe.LabelFiles)
	return all, nil
}

// checkDescription: the entrypoint refuses to start without the description of its image, and
// follows what it says. Labels and variables repeat it.
func checkDescription(s *subject) {
	info := s.info
	switch {
	case errors.Is(s.infoErr, fs.ErrNotExist):
		if s.which(recipe.EntrypointName) != nil {
			s.fail(driverinfo.Path, "is not there: the entrypoint cannot know which driver it has")
		}
		return
	case s.infoErr != nil:
		s.fail(driverinfo.Path, "%v", s.infoErr)
		return
	}
	differs := func(what, want, of, is string) {
		if sorted(want) != sorted(is) {
			s.fail(driverinfo.Path, "%s is %q, %s %.200q", what, want, of, is)
		}
	}
	differs("driver", info.Driver, "that of the libraries is", s.version)
	differs("arch", info.Arch, "that of the image is", s.config.Architecture)
	want := recipe.DescribedLabels(info)
	labels := s.config.Config.Labels
	for _, name := range slices.Sorted(maps.Keys(want)) {
		what := strings.TrimPrefix(name[strings.LastIndexByte(name, '.'):], ".")
		differs(what, want[name], "the label "+name+" says", labels[name])
	}
	variables := recipe.Variables(info)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if is := s.env(name); is != variables[name] {
			s.fail(driverinfo.Path, "needs the variable %s=%s, the image has %.200q", name, variables[name], is)
		}
	}
	s.checkOtherLabels()
	if d, err := distros.Lookup(info.OS); err == nil && !s.modulesOnly() {
		if id, version, err := osrelease.Read(s.tree.OpenFS()); err != nil || !distros.Userland(d).Matches(id, version) {
			s.fail(driverinfo.Path, "os is %q, etc/os-release says %q %q", info.OS, id, version)
		}
	}
	if !info.Toolchain && len(info.Precompiled) == 0 {
		s.find(Note, driverinfo.Path, "says that the image has neither modules nor a toolchain to compile them: a node needs an image of modules beside it, or a system that loads them")
	}
	if i := slices.IndexFunc(s.all, beside); i >= 0 && s.modulesOnly() {
		s.fail(s.all[i].Path, "is neither modules nor their licence: the image's description says that it has nothing else")
	}
	for _, flavour := range info.Flavours {
		if dir := recipe.KernelDir(info.Driver, flavour); !s.tree.Exists(dir) && s.tree.Exists("usr/src/nvidia-"+info.Driver) {
			s.fail(driverinfo.Path, "names the flavour %s, whose sources (%s) are not there", flavour, dir)
		}
	}
}

// beside says whether an entry is not one of an image of modules.
func beside(e *rootfs.Entry) bool {
	return e.Kind != rootfs.Dir && e.Path != driverinfo.Path && e.Path != recipe.FileList &&
		!recipe.HasPrefix([]string{recipe.ModulesDir + "/", "licenses/"}, e.Path)
}

// sorted puts the words of a list in order: labels have the order of the request.
func sorted(list string) string {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	return strings.Join(slices.Sorted(slices.Values(words)), ",")
}

// checkOtherLabels checks those that the description has a part of.
func (s *subject) checkOtherLabels() {
	info := s.info
	labels := s.config.Config.Labels
	// "name: reason; name: reason", and a reason may hold anything
	said := labels[recipe.LabelOverridden]
	if (said == "") != (len(info.Overridden) == 0) ||
		slices.ContainsFunc(
			info.Overridden,
			func(name string) bool { return !strings.Contains("; "+said, "; "+name+": ") },
		) {
		s.fail(
			driverinfo.Path,
			"overridden rules are %q, the label says %q",
			strings.Join(info.Overridden, ", "),
			said,
		)
	}
	for tag := range strings.SplitSeq(labels[recipe.OCIPrefix+"version"]+","+labels[recipe.LabelAliases], ",") {
		if tag != "" && !strings.HasPrefix(tag, info.Driver+"-") &&
			!strings.HasPrefix(tag, strings.TrimPrefix(info.Branch, "R")+"-") {
			s.fail(
				driverinfo.Path,
				"driver is %q of branch %s, a label names the tag %.200q",
				info.Driver,
				info.Branch,
				tag,
			)
		}
	}
	signer := labels[recipe.LabelSigner]
	if len(s.sets) == 0 && signer != "" {
		s.fail(
			"",
			"the label %s is %.100q, and the image has no modules",
			recipe.LabelSigner,
			signer,
		)
	}
	for _, m := range s.sets {
		if m.Damage == "" && m.Certificate != signer {
			s.fail(
				m.path(),
				"is signed with the certificate %q, the label %s says %.100q",
				m.Certificate,
				recipe.LabelSigner,
				signer,
			)
		}
	}
}
