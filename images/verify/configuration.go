package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/strictjson"
)

// withoutEffect are the fields of a configuration that no container runtime looks at. What adds a
// layer changes them.
var withoutEffect = []string{"author", "container", "created", "docker_version", "history"}

// checkAnnotations compares the manifest's annotations with the labels, which they repeat.
func checkAnnotations(s *subject) {
	labels := s.config.Config.Labels
	names := slices.Collect(maps.Keys(s.annotations))
	// some programs drop all annotations when they copy an image
	if slices.ContainsFunc(names, recipe.IsLabel) {
		names = slices.AppendSeq(names, maps.Keys(labels))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		label, labelled := labels[name]
		is := s.annotations[name]
		if is != label && (labelled || recipe.IsLabel(name)) {
			s.fail(
				"",
				"annotation %.100q of the manifest is %.200q, the label %.200q",
				name,
				is,
				label,
			)
		}
	}
}

// compareConfiguration compares the configuration with the recorded one. Of an image with a layer
// that the caller allows, the fields without an effect are another matter.
func (s *subject) compareConfiguration(recorded map[string]any, added bool) {
	differences, err := ConfigDifferences(encode(recorded), s.rawConfig)
	if err != nil {
		s.fail("", "%v", err)
		return
	}
	for _, d := range differences {
		if added && recipe.HasPrefix(withoutEffect, d) {
			continue
		}
		s.fail("", "%s: driver-build recorded another", d)
	}
}

// ConfigDifferences says in words which fields of a configuration are not those of another one:
// "config.User is "nobody", not set". It knows no field by its name, except the diff IDs of layers,
// which it leaves out.
func ConfigDifferences(want, is []byte) (all []string, err error) {
	before, err := configFields(want)
	if err != nil {
		return nil, err
	}
	after, err := configFields(is)
	if err != nil {
		return nil, err
	}
	return appendDifferences(nil, "", before, after), nil
}

// configFields are the fields of a configuration. The variables are fields of an object.
func configFields(raw []byte) (map[string]any, error) {
	doc, err := strictjson.Decode[map[string]any](raw)
	if err != nil {
		return nil, fmt.Errorf("the image's configuration is malformed: %w", err)
	}
	rootfs, ok := doc["rootfs"].(map[string]any)
	if ok {
		delete(rootfs, "diff_ids")
	}
	config, ok := doc["config"].(map[string]any)
	if ok {
		config["Env"] = variables(config["Env"])
	}
	return doc, nil
}

// variables are those of a list by their names. A list in which one is there twice, or has no value,
// stays as it is.
func variables(list any) any {
	words, _ := list.([]any)
	all := map[string]any{}
	for _, word := range words {
		text, _ := word.(string)
		name, value, ok := strings.Cut(text, "=")
		_, twice := all[name]
		if !ok || twice {
			return list
		}
		all[name] = value
	}
	return all
}

// appendDifferences compares two values of JSON at a path. An empty value is as good as none.
func appendDifferences(all []string, at string, was, is any) []string {
	before, wasObject := was.(map[string]any)
	after, isObject := is.(map[string]any)
	switch {
	case wasObject && isObject:
		names := maps.Clone(before)
		maps.Copy(names, after)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			path := strings.TrimPrefix(at+"."+name, ".")
			all = appendDifferences(all, path, before[name], after[name])
		}
		return all
	case isEmpty(was) && isEmpty(is), reflect.DeepEqual(was, is):
		return all
	case was == nil:
		return append(all, fmt.Sprintf("%.200s is %.200s, not set", at, encode(is)))
	case is == nil:
		return append(all, fmt.Sprintf("%.200s is not set, not %.200s", at, encode(was)))
	}
	return append(all, fmt.Sprintf("%.200s is %.200s, not %.200s", at, encode(is), encode(was)))
}

// encode is a value that was JSON.
func encode(v any) []byte {
	b, _ := json.Marshal(v) //nolint:errchkjson // it was JSON
	return b
}

func isEmpty(v any) bool {
	return slices.Contains([]string{"null", `""`, "0", "false", "[]", "{}"}, string(encode(v)))
}

// checkDescription: the entrypoint refuses to start without the description of its image, and
// follows what it says.
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
	if info.Driver != s.version {
		s.fail(driverinfo.Path, "driver is %q, that of the libraries is %q", info.Driver, s.version)
	}
	if arch := s.config.Architecture; info.Arch != arch {
		s.fail(driverinfo.Path, "arch is %q, that of the image is %.200q", info.Arch, arch)
	}
	if !info.Toolchain && len(info.Precompiled) == 0 {
		s.find(
			Note,
			driverinfo.Path,
			"says that the image has neither modules nor a toolchain to compile them: a node needs an image of modules beside it, or a system that loads them",
		)
	}
}
