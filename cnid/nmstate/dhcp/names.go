// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// CheckHostname tells why a text can't be sent as the name of the host.
func CheckHostname(name string) error {
	if !IsDomain(name) {
		return fmt.Errorf(
			"is %s: expected a host name of letters, digits and hyphens, with 253 characters at most",
			quote.Text(name),
		)
	}
	return nil
}

const maxDomain, maxLabel = 253, 63

// IsDomain reports whether a text is a name of DNS that a resolver's file may have: labels of
// letters, digits, hyphens and underscores. Servers write these texts.
func IsDomain(name string) bool {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > maxDomain {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if !isLabel(label) {
			return false
		}
	}
	return true
}

func isLabel(label string) bool {
	if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		c := label[i]
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// Domains returns the names among texts of a server that a resolver's file may have, each
// once, and as many as a lease has.
func Domains(texts []string) []string {
	var names []string
	for _, text := range texts {
		name := strings.ToLower(strings.TrimSuffix(text, "."))
		if len(names) < MaxSearch && IsDomain(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
