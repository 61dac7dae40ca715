package lab

import (
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }
func splitStat(s string) []string { return strings.Fields(s) }
