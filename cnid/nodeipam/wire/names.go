// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/alioth-net/alioth/api/quote"
)

// Limits of names, in bytes. An ID is a part of file names, which have 255 bytes at most.
const (
	maxContainerID    = 128
	maxPodInterfaceID = 256
	maxIfname         = 15
)

var containerID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// CheckContainerID returns an error for a text that can't be a container ID (CNI 1.1, section
// "Parameters").
func CheckContainerID(id string) error {
	if len(id) > maxContainerID || !containerID.MatchString(id) {
		return fmt.Errorf(
			"container ID %s: want at most %d letters, digits, '_', '.' and '-', and the first a letter or digit",
			quote.Text(id),
			maxContainerID,
		)
	}
	return nil
}

// CheckPodInterfaceID returns an error for an unreasonable podInterfaceID. It accepts "".
func CheckPodInterfaceID(id string) error {
	if len(id) > maxPodInterfaceID ||
		strings.ContainsFunc(id, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }) {
		return fmt.Errorf(
			"podInterfaceID %s: want at most %d printable characters of ASCII",
			quote.Text(id),
			maxPodInterfaceID,
		)
	}
	return nil
}

// CheckIfname returns an error for a text that can't be the name of an interface; "" is not
// checked.
func CheckIfname(name string) error {
	unfit := func(r rune) bool {
		return r == '/' || r == ':' || r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}
	if len(name) > maxIfname || name == "." || name == ".." || strings.ContainsFunc(name, unfit) {
		return fmt.Errorf(
			"ifname %s: want at most %d printable characters without '/', ':' and spaces",
			quote.Text(name),
			maxIfname,
		)
	}
	return nil
}
