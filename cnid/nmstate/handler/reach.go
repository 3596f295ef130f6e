// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net"
	"net/url"
	"strings"
)

// Reach returns HOST:PORT of an API server, which a node must reach after each change of its
// network; none if the text, a host or URL as in a kubeconfig, has no host.
func Reach(server string) []string {
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	address, err := url.Parse(server)
	if err != nil || address.Hostname() == "" {
		return nil
	}
	port := address.Port()
	switch {
	case port != "":
	case address.Scheme == "http":
		port = "80"
	default:
		port = "443"
	}
	return []string{net.JoinHostPort(address.Hostname(), port)}
}
