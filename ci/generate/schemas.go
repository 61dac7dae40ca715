package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rehearse"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/host"
	"github.com/driver-container/driver-container/node/preflight"
	nodestatus "github.com/driver-container/driver-container/node/status"
)

// schemaDir is the folder of the schemas, relative to the project's folder.
const schemaDir = "docs/schema"

// printed is a schema that is made from a type.
type printed struct {
	title string
	value any  // of the type
	list  bool // of such objects: the output has schema and items
}

// schemas are the schemas that are made from types, by the beginning of their file's name.
var schemas = map[string]printed{
	"inspect": {
		"An image, as driver-build inspect -o json prints it",
		verify.Inspection{},
		false,
	},
	"bundle-list": {
		"What a bundle holds, as driver-build bundle list -o json prints it",
		bundle.List{},
		false,
	},
	"status": {
		"/run/nvidia/driver-status.json: what is known of the driver on a node",
		nodestatus.Snapshot{},
		false,
	},
	"bundle-have": {
		"What a repository has, as driver-build bundle have prints it",
		bundle.Stock{},
		false,
	},
	"compile": {
		"A set of modules, as nvidia-driver compile -o json prints it",
		kbuild.Set{},
		false,
	},
	"bake": {
		"What was baked, as nvidia-driver bake -o json prints it",
		host.Baked{},
		false,
	},
	"baked": {
		"baked.json of a state folder: the drivers that were baked into it",
		host.Index{},
		false,
	},
	"audit": {
		"What nodes run, as driver-build audit -o json prints it",
		fleet.Audit{},
		false,
	},
	"fleet": {
		"What a fleet needs, as driver-build fleet -o json prints it",
		fleet.Recommendation{},
		false,
	},
	"recipe": {
		"The recipe of an image, as driver-build --dry-run prints it",
		recipe.Recipe{},
		false,
	},
	"lock": {
		"matrix.lock of driver-build: what the images are made from. docs/build.md#pin-everything-matrixlock explains it",
		lockfile.Lock{},
		false,
	},
	"plan": {
		"The builds that are due, as driver-build plan -o json prints them",
		status.Task{},
		true,
	},
	"list": {
		"Pairs of the matrix, as driver-build list -o json prints them",
		status.Pair{},
		true,
	},
	"check": {
		"Pairs and what was found out about them, as driver-build check -o json prints them",
		status.Checked{},
		true,
	},
	"kernels": {
		"Kernels of the repositories, as driver-build kernels -o json prints them",
		status.OfferedKernel{},
		true,
	},
	"drivers": {
		"Branches of the driver, as driver-build drivers -o json prints them",
		releases.Coverage{},
		true,
	},
	"gpus": {
		"GPUs and their drivers, as driver-build gpus -o json prints them",
		gpus.Answer{},
		true,
	},
	"rehearse": {
		"What a rehearsal showed, as driver-build rehearse -o json prints it",
		rehearse.Report{},
		false,
	},
	"verify": {
		"Findings about an image, as driver-build verify -o json prints them",
		verify.Finding{},
		true,
	},
	"bundle-verify": {
		"Findings about a bundle, as driver-build bundle verify -o json prints them",
		bundle.Fault{},
		true,
	},
	"cache": {
		"What takes room in the cache, as driver-build cache -o json prints it",
		fetch.Usage{},
		true,
	},
	"doctor": {
		"Answers about this machine, as driver-build doctor -o json prints them",
		session.Finding{},
		true,
	},
	"preflight": {
		"Checks of a node, as nvidia-driver preflight -o json prints them",
		preflight.Check{},
		true,
	},
	"holders": {
		"Processes that have the driver open, as nvidia-driver holders -o json prints them",
		kmod.Holder{},
		true,
	},
}

// schemaFiles returns the generated schemas by the paths of their files.
func schemaFiles(root string) (map[string]string, error) {
	files := map[string]string{}
	for name, p := range schemas {
		s := maker{
			root:        root,
			definitions: object{},
			comments:    map[string]map[string]string{},
		}
		top, err := s.of(reflect.TypeOf(p.value))
		if err != nil {
			return nil, fmt.Errorf("make the schema %s: %w", name, err)
		}
		document := object{
			"$schema":     "http://json-schema.org/draft-07/schema#",
			"title":       p.title,
			"definitions": s.definitions,
		}
		if p.list {
			top = listOf(top)
		}
		maps.Copy(document, top)
		files[schemaDir+"/"+name+".schema.json"], err = indented(document)
		if err != nil {
			return nil, fmt.Errorf("write the schema %s: %w", name, err)
		}
	}
	return files, nil
}

// listOf is the schema of a list of items.
func listOf(item object) object {
	return object{
		"type":                 "object",
		"additionalProperties": false,
		"required":             []string{"schema", "items"},
		"properties": object{
			"schema": object{
				"const":       session.ListSchema,
				"description": "version of this shape, which grows when the meaning of a field changes",
			},
			"items": object{"type": "array", "items": item},
		},
	}
}

// indented writes JSON for people.
func indented(value any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(value)
	return b.String(), err
}
