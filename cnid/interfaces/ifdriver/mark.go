// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ifdriver

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// maxAlias is the longest alias that the kernel takes (IFALIASZ less the zero).
const maxAlias = 255

// aliasFields are the required words of an alias: alioth, container ID, interface, pod
// UID, network, and path of the network namespace, each escaped as in a URL. A further
// interface of a request has a slash and the name of the requested one behind its own.
// The text behind these words is for people.
const aliasFields = 6

// Mark returns the alias of an interface, which identifies its attachment after the loss of the
// journal. The alias for a real runtime needs some 200 bytes; an alias that does not fit
// identifies nothing.
func Mark(spec Spec) string {
	name := url.PathEscape(spec.IfName)
	if spec.Request != "" {
		name += "/" + url.PathEscape(spec.Request)
	}
	words := []string{
		"alioth", url.PathEscape(spec.ContainerID), name, url.PathEscape(spec.PodUID),
		url.PathEscape(spec.Network), (&url.URL{Path: spec.NetnsPath}).EscapedPath(), spec.Description,
	}
	return quote.Cut(strings.Join(words, " "), maxAlias)
}

// DeviceName returns a name for a device of an attachment: a prefix of three characters
// and twelve that depend on nothing but container and interface. A name has at most 15.
func DeviceName(prefix, containerID, ifName string) string {
	sum := sha256.Sum256([]byte(containerID + "\x00" + ifName))
	return prefix + hex.EncodeToString(sum[:6])
}

// Marked reads an alias. It returns false for other texts and incomplete aliases.
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
