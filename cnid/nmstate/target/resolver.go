// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// resolver returns the resolver's configuration that a document has, nil if it has none.
func (r *resolution) resolver(dns *document.DNS) *document.Resolver {
	if dns == nil || dns.Config == nil {
		return nil
	}
	const path = "dns-resolver.config"
	for n, server := range dns.Config.Server {
		// A link-local server has a zone.
		if _, err := netip.ParseAddr(server); err != nil {
			r.add(fmt.Sprintf("%s.server[%d]", path, n), "%q: want an IP address", server)
		}
	}
	for n, domain := range dns.Config.Search {
		r.checkWord(fmt.Sprintf("%s.search[%d]", path, n), domain)
	}
	for n, option := range dns.Config.Options {
		r.checkWord(fmt.Sprintf("%s.options[%d]", path, n), option)
	}
	return dns.Config
}

// checkWord checks what is one word of a line of resolv.conf(5).
func (p *problems) checkWord(path, text string) {
	if text == "" || strings.ContainsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
		p.add(path, "%q: want one word without spaces", text)
	}
}
