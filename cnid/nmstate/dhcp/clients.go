// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

// Clients has the methods of clients that the engine uses; client.Manager is one.
type Clients interface {
	// Set starts, changes and ends clients, so that those of the list run and no others.
	// It returns when the leases of the files are in Leases, so a daemon that starts, calls
	// Set and then compares the interfaces with Leases leaves no gap. A client that is no
	// longer listed gives its address back (RELEASE). An error names what can't be used; all
	// else is done.
	Set(configs []Config) error
	// Leases returns all clients with what they hold, in the order of interface and family.
	Leases() []Held
	// Advertised returns what routers of all links have told about the resolver since the process
	// began, with what is over.
	Advertised() []Advertised
	// Changed is ready after each change of Leases: a lease came, was prolonged, or ended, or
	// a problem came or went. It is ready after a change of Advertised too, once a second at
	// most. Changes that nobody took yet are one.
	Changed() <-chan struct{}
}
