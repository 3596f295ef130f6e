// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strconv"
	"strings"
)

// segment is a step of a path: a field of an object, or an element of a list by its key.
type segment struct {
	key     string
	element bool
}

// path is where a field is in a state document.
type path []segment

func field(p path, key string) path { return append(p[:len(p):len(p)], segment{key: key}) }
func element(p path, key string) path {
	return append(p[:len(p):len(p)], segment{key: key, element: true})
}

// String is for example interfaces[bond0.100].ipv4.address. No two paths share one.
func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.element:
			b.WriteString("[" + quoted(s.key, true) + "]")
		case i > 0:
			b.WriteString("." + quoted(s.key, false))
		default:
			b.WriteString(quoted(s.key, false))
		}
	}
	return b.String()
}

// quoted is a key that can't be mistaken for another one, or for two of them. The key of an
// element may have dots, which are common in names of interfaces.
func quoted(key string, dots bool) string {
	for i := range len(key) {
		c := key[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !plain && !strings.ContainsRune("-_:@/# ", rune(c)) && (c != '.' || !dots) {
			return strconv.Quote(key)
		}
	}
	if key == "" {
		return strconv.Quote(key)
	}
	return key
}

// iface returns the name of the interface that contains a path, and false outside of interfaces.
func (p path) iface() (string, bool) {
	if len(p) > 1 && p[0].key == interfaces && p[1].element {
		return p[1].key, true
	}
	return "", false
}

// entry reports whether a path leads to an entry of a concatenated list.
func (p path) entry() bool {
	return len(p) == 3 && p[2].element && p[0].key != interfaces
}
