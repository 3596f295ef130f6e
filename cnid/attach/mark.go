// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"net/url"
	"strings"
)

// maxAlias is the longest alias that the kernel takes (IFALIASZ less the zero).
const maxAlias = 255

// aliasFields are the words of an alias that have to be whole: alioth, container ID,
// interface, pod UID, network, and path of the network namespace, each escaped as in
// a URL. An interface that came along with another has that one's name behind its
// own and a slash. What comes behind the words is for people.
const aliasFields = 6

// Mark returns the alias of an interface: what it takes to find out whose it is
// when the journal is lost. A real runtime's needs some 200 bytes; of one that
// doesn't fit nothing can be found out.
func Mark(spec Spec) string {
	name := url.PathEscape(spec.IfName)
	if spec.Request != "" {
		name += "/" + url.PathEscape(spec.Request)
	}
	words := []string{
		"alioth", url.PathEscape(spec.ContainerID), name, url.PathEscape(spec.PodUID),
		url.PathEscape(spec.Network), (&url.URL{Path: spec.NetnsPath}).EscapedPath(), spec.Description,
	}
	alias := strings.Join(words, " ")
	return alias[:min(len(alias), maxAlias)]
}

// Marked reads an alias back. It is false for what is not one, or not whole.
func Marked(alias string) (Found, bool) {
	words := strings.SplitN(alias, " ", aliasFields+1)
	if len(words) <= aliasFields || words[0] != "alioth" {
		return Found{}, false
	}
	name, request, along := strings.Cut(words[2], "/")
	words[2] = name
	var found Found
	for i, field := range []*string{&found.ContainerID, &found.IfName, &found.PodUID, &found.Network, &found.NetnsPath} {
		text, err := url.PathUnescape(words[i+1])
		if err != nil || text == "" {
			return Found{}, false
		}
		*field = text
	}
	var err error
	found.Request, err = url.PathUnescape(request)
	return found, err == nil && along == (found.Request != "")
}
