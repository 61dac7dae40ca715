package matrix

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fields are the numbers in a version or in the name of a branch. Those at the end that are missing are 0: NVIDIA's 418.113 is
// 418.113.00.
func fields(version string) (numbers [4]int) {
	for i, field := range strings.SplitN(strings.TrimPrefix(version, "R"), ".", len(numbers)) {
		numbers[i], _ = strconv.Atoi(field) // the forms of versions are checked
	}
	return numbers
}

// CompareVersions orders versions, and names of branches, by their fields as numbers: 418.87.01 < 418.113 < R535, and 418.87.1
// equals 418.87.01.
func CompareVersions(a, b string) int {
	x, y := fields(a), fields(b)
	return slices.Compare(x[:], y[:])
}

// inRange reports whether a version is at least one and below another; "" is no limit.
func inRange(version, from, below string) bool {
	return (from == "" || CompareVersions(version, from) >= 0) && (below == "" || CompareVersions(version, below) < 0)
}

// Major returns the number of a branch: 470 for "R470" and "470.256.02"; 0 if there is none.
func Major(version string) int { return fields(version)[0] }

// canonical returns the form of a version that is the same for equal releases.
func canonical(version string) string { return fmt.Sprint(fields(version)) }
