package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	call   = regexp.MustCompile(`(?:^|[;&|(]|\bsudo) *(?:bin/)?driver-build((?: +[^ |;&)]+)+)`)
	option = regexp.MustCompile(`(?:^|[ \[])(--[a-z][a-z-]*)`)
	verb   = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
)

// withoutHelp are commands whose help has no file: cobra has made them.
var withoutHelp = []string{"help", "completion"}

// checkCall returns what is wrong with the calls of driver-build in a line of code: a command or a
// flag that its help does not know. helps has the help texts by the names of their files,
// "bundle-create".
func checkCall(code string, helps map[string]string) []string {
	var wrong []string
	for _, found := range call.FindAllStringSubmatch(code, -1) {
		words := strings.Fields(found[1])
		command := "driver-build"
		if verb.MatchString(words[0]) {
			command = words[0]
			if len(words) > 1 && helps[words[0]+"-"+words[1]] != "" {
				command = words[0] + "-" + words[1]
			}
		}
		help, ok := helps[command]
		switch {
		case slices.Contains(withoutHelp, command):
			continue
		case !ok:
			wrong = append(wrong, fmt.Sprintf("driver-build has no command %s", command))
			continue
		}
		if command == "driver-build" { // whose help has the flags that build has
			help += helps["build"]
		}
		for _, flag := range option.FindAllStringSubmatch(found[1], -1) {
			if !regexp.MustCompile(` ` + flag[1] + `[\s,\[]`).MatchString(help) {
				wrong = append(wrong, fmt.Sprintf("%s has no flag %s", command, flag[1]))
			}
		}
	}
	return wrong
}
