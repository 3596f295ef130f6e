// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net"
	"net/url"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/reach"
)

// APIServer returns the target of an API server, which a node must reach after each change of its
// network if it does before; the zero value if the text, a host or URL as in a kubeconfig, has
// no host.
func APIServer(server string) reach.Target {
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	address, err := url.Parse(server)
	if err != nil || address.Hostname() == "" {
		return reach.Target{}
	}
	port := address.Port()
	switch {
	case port != "":
	case address.Scheme == "http":
		port = "80"
	default:
		port = "443"
	}
	target, err := reach.Parse(net.JoinHostPort(address.Hostname(), port))
	if err != nil {
		return reach.Target{}
	}
	return target
}
