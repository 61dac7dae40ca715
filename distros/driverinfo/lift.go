package driverinfo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Span is a range of kernels.
type Span struct {
	From  string `json:"from"`            // the first version in it: "6.1.187"
	Below string `json:"below,omitempty"` // the first version after it: "6.2"; "" if it has no end
}

// String returns the range in words, as Broken has it.
func (s Span) String() string { return Broken{From: s.From, Below: s.Below}.Range() }

// Lift returns the rule of sources with a change that makes modules of some flavours work on a
// range of kernels. flavours are all that the driver has, name is that of the change. changed is
// false if nothing in the rule speaks against the kernels. The error says why they do not fit to
// the limit Max.
func (r KernelRule) Lift(
	s Span,
	some, flavours []string,
	name string,
) (lifted KernelRule, changed bool, err error) {
	lifted = r
	lifted.Broken = nil
	for _, b := range r.Broken {
		parts := b.without(s, some, flavours)
		changed = changed || len(parts) != 1 || parts[0].Range() != b.Range() ||
			!slices.Equal(parts[0].Flavours, b.Flavours)
		lifted.Broken = append(lifted.Broken, parts...)
	}
	below := s.Below != "" && CompareKernels(s.Below, r.Max) <= 0
	if r.Max == "" || below ||
		before(s.Below) != "" && CompareKernels(before(s.Below), r.Max) <= 0 {
		return lifted, changed, nil
	}
	major, minor, _ := Series(r.Max)
	next := before(s.Below)
	switch from := numbers(s.From); {
	case next == "":
		return r, false, fmt.Errorf(
			"the kernels above max (%s) need an end whose last number is not 0: name the series behind the last one that was tried, such as below: 6.13",
			r.Max,
		)
	case compare(from, []int{major, minor + 1, 0}) > 0 && compare(from, []int{major + 1, 0, 0}) != 0:
		return r, false, fmt.Errorf(
			"it begins at %s and the limit max is %s: the kernels between them would be left out",
			s.From,
			r.Max,
		)
	case slices.ContainsFunc(flavours, func(f string) bool { return !slices.Contains(some, f) }):
		return r, false, fmt.Errorf(
			"max (%s) holds for all flavours of the driver, and it is for %s only",
			r.Max,
			strings.Join(some, ", "),
		)
	}
	lifted.Max = next
	lifted.Reason = fmt.Sprintf("%s; above %s with the patch %s", r.Reason, r.Max, name)
	return lifted, true, nil
}

// without returns what is left of a range for flavours when a change mends a part of it for some.
func (b Broken) without(s Span, some, flavours []string) (left []Broken) {
	var mended, others []string
	for _, f := range flavours {
		switch {
		case b.Affects(f) && slices.Contains(some, f):
			mended = append(mended, f)
		case b.Affects(f):
			others = append(others, f)
		}
	}
	apart := s.Below != "" && order(s.Below, b.From) <= 0 ||
		b.Below != "" && order(b.Below, s.From) <= 0
	if len(mended) == 0 || apart {
		return []Broken{b}
	}
	if len(others) > 0 {
		rest := b
		rest.Flavours = others
		left = append(left, rest)
	}
	b.Flavours = mended
	if order(b.From, s.From) < 0 {
		head := b
		head.Below = s.From
		left = append(left, head)
	}
	if s.Below != "" && (b.Below == "" || order(s.Below, b.Below) < 0) {
		tail := b
		tail.From = s.Below
		left = append(left, tail)
	}
	return left
}

// order compares ends of ranges: 6.1 is 6.1.0 there, below 6.1.187.
func order(a, b string) int {
	x := append(numbers(a), 0, 0, 0)
	y := append(numbers(b), 0, 0, 0)
	return slices.Compare(x[:3], y[:3])
}

// before returns the last series in front of the end of a range: "6.12" for "6.13"; "" if that
// cannot be told.
func before(end string) string {
	n := numbers(end)
	if len(n) == 0 || n[len(n)-1] == 0 {
		return ""
	}
	n[len(n)-1]--
	words := make([]string, len(n))
	for i, number := range n {
		words[i] = strconv.Itoa(number)
	}
	return strings.Join(words, ".")
}
