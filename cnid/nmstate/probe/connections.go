// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net"
)

// TCP asks whether something accepts connections at an address, HOST:PORT.
func TCP(name, address string) Probe {
	return Probe{Name: name + " at " + address, Check: func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}}
}

// Lookup asks a name server for a name. The answer that there is no such name is one.
func Lookup(server, name string) Probe {
	return Probe{Name: "name server " + server, Check: func(ctx context.Context) error {
		return lookup(ctx, net.JoinHostPort(server, "53"), name)
	}}
}

func lookup(ctx context.Context, server, name string) error {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server)
	}}
	_, err := resolver.LookupHost(ctx, name)
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return nil
	}
	return err
}
