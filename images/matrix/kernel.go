package matrix

import (
	"cmp"
	"strconv"
	"strings"
)

// compareKernels orders kernel series by their fields as numbers: "5.4" < "5.15" < "6.1" < "6.12". Only the
// fields that both have count, so "6.1.192" is within a limit of "6.1".
func compareKernels(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i]) // kernelSeries accepted both: at most four digits
		n, _ := strconv.Atoi(y[i])
		if c := cmp.Compare(m, n); c != 0 {
			return c
		}
	}
	return 0
}
