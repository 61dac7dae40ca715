package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
)

// withoutEffect are the fields of a configuration that no container runtime looks at.
var withoutEffect = []string{"author", "container", "created", "docker_version", "history"}

// checkConfiguration compares the configuration with the one that driver-build recorded, and the manifest's
// annotations with the labels, which they repeat.
func checkConfiguration(s *subject, find finder) {
	labels := s.config.Config.Labels
	names := slices.Collect(maps.Keys(s.annotations))
	if slices.ContainsFunc(names, recipe.IsLabel) { // some programs drop all annotations when they copy an image
		names = slices.AppendSeq(names, maps.Keys(labels))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		label, labelled := labels[name]
		if is := s.annotations[name]; is != label && (labelled || recipe.IsLabel(name)) {
			find(Error, "", "annotation %.100q of the manifest is %.200q, the label %.200q", name, is, label)
		}
	}
	if s.recorded == nil {
		return
	}
	want, err := json.Marshal(s.recorded)
	if err != nil {
		find(Error, recipe.FileList, "the recorded configuration: %v", err)
		return
	}
	differences, err := ConfigDifferences(want, s.rawConfig)
	if err != nil {
		find(Error, "", "%v", err)
	}
	for _, d := range differences {
		sev := Error
		if slices.ContainsFunc(withoutEffect, func(field string) bool { return strings.HasPrefix(d, field) }) {
			sev = Note
		}
		find(sev, "", "%s: driver-build recorded another", d)
	}
}

// ConfigDifferences says in words which fields of a configuration are not those of another one: "config.User is
// "nobody", not set". It knows no field by its name, except those that the layer with the list of files makes: the
// digests of the layers, and the digest of that list.
func ConfigDifferences(want, is []byte) (all []string, err error) {
	a, err := fields(want)
	if err != nil {
		return nil, err
	}
	b, err := fields(is)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(merged(a, b))) {
		switch was, now := a[name], b[name]; {
		case reflect.DeepEqual(was, now):
		case was == nil:
			all = append(all, fmt.Sprintf("%.200s is %s, not set", name, text(now)))
		case now == nil:
			all = append(all, fmt.Sprintf("%.200s is not set, not %s", name, text(was)))
		default:
			all = append(all, fmt.Sprintf("%.200s is %s, not %s", name, text(now), text(was)))
		}
	}
	return all, nil
}

func merged(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.200s", b)
}

// fields are the fields of a configuration by their paths, without empty ones; each label and variable is one.
func fields(config []byte) (map[string]any, error) {
	var doc map[string]any
	if err := json.Unmarshal(config, &doc); err != nil {
		return nil, fmt.Errorf("the image's configuration is malformed: %w", err)
	}
	delete(doc, "rootfs")
	all := map[string]any{}
	var add func(at string, v any)
	add = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if len(v) == 0 { // such as a member of a set
				all[at] = v
			}
			for name, value := range v {
				add(strings.TrimPrefix(at+"."+name, "."), value)
			}
		case []any:
			for n, value := range v {
				name, text := fmt.Sprintf("%s[%d]", at, n), value
				if word, ok := value.(string); ok && at == "config.Env" {
					before, after, _ := strings.Cut(word, "=")
					if name = at + "." + before; all[name] == nil { // one that is there twice keeps its place
						text = after
					} else {
						name = fmt.Sprintf("%s[%d]", name, n)
					}
				}
				all[name] = text
			}
		case nil:
		default:
			if !reflect.ValueOf(v).IsZero() {
				all[at] = v
			}
		}
	}
	add("", doc)
	delete(all, "config.Labels."+recipe.LabelFiles)
	return all, nil
}
