// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// Resolver checks the configuration of the resolver. An option that is there now is not wrong.
func (p *Problems) Resolver(want, now document.Resolver) {
	const path = "dns-resolver.config"
	for n, server := range want.Server {
		// A link-local server has a zone.
		if _, err := netip.ParseAddr(server); err != nil {
			p.Add(fmt.Sprintf("%s.server[%d]", path, n), "%q: want an IP address", server)
		}
	}
	for n, domain := range want.Search {
		p.checkWord(fmt.Sprintf("%s.search[%d]", path, n), domain)
	}
	for n, option := range want.Options {
		if !resolverOption(option) && !slices.Contains(now.Options, option) {
			p.Add(
				fmt.Sprintf("%s.options[%d]", path, n),
				"%q: want one of %s",
				option,
				strings.Join(append(plainOptions(), "ndots:N, timeout:N, attempts:N"), ", "),
			)
		}
	}
}

// plainOptions are the options of resolv.conf(5) without a number.
func plainOptions() []string {
	return []string{
		"debug", "edns0", "inet6", "ip6-bytestring", "ip6-dotint", "no-aaaa", "no-check-names", "no-ip6-dotint", "no-reload",
		"no-tld-query", "rotate", "single-request", "single-request-reopen", "trust-ad", "use-vc",
	}
}

// resolverOption reports whether a text is an option of resolv.conf(5).
func resolverOption(text string) bool {
	name, value, numbered := strings.Cut(text, ":")
	if !numbered {
		return slices.Contains(plainOptions(), name)
	}
	const base, bits = 10, 31
	_, err := strconv.ParseUint(value, base, bits)
	return err == nil && (name == "ndots" || name == "timeout" || name == "attempts")
}

// checkWord checks a text that becomes one word of a line of resolv.conf(5).
func (p *Problems) checkWord(path, text string) {
	if text == "" || strings.ContainsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
		p.Add(path, "%q: want one word without spaces", text)
	}
}
