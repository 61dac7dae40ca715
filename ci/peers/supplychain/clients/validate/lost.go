package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// relations are members of SPDX that the library turns into relationships.
var relations = []string{"documentDescribes", "hasFiles"}

// lost compares a document with what the library wrote after it had read it. Members that are
// missing there are unknown to the library: misspelt, or not of this version of the format.
func lost(before, after []byte) error {
	var a, b any
	if err := errors.Join(json.Unmarshal(before, &a), json.Unmarshal(after, &b)); err != nil {
		return err
	}
	known := map[string]bool{}
	members(b, "", func(path string) { known[path] = true })
	var unknown []string
	members(a, "", func(path string) {
		if !known[path] && !slices.Contains(relations, path[strings.LastIndex(path, ".")+1:]) &&
			!slices.Contains(unknown, path) {
			unknown = append(unknown, path)
		}
	})
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("members that the library does not know: %s", strings.Join(unknown, ", "))
	}
	return nil
}

// members calls yield with the path of each member that says something. Elements of arrays have one
// path.
func members(value any, path string, yield func(string)) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			members(member, path+"."+name, yield)
		}
	case []any:
		for _, element := range v {
			members(element, path+"[]", yield)
		}
	case string:
		if v != "" {
			yield(path)
		}
	case bool, float64:
		yield(path)
	}
}
