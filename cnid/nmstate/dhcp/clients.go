// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

// Clients has the methods of clients that the engine uses; client.Manager is one.
type Clients interface {
	// Set starts, changes and ends clients, so that exactly the clients of the list run. It
	// returns when the leases of the files are in Leases. So a daemon that starts, calls Set and
	// then compares the interfaces with Leases leaves no gap. A client that the list lacks
	// gives its address back (RELEASE). An error names the unusable entries; Set applies all
	// others.
	Set(configs []Config) error
	// Leases returns all clients with what they hold, in the order of interface and family.
	Leases() []Held
	// Advertised returns the entries about the resolver that routers of all links have sent since
	// the process began, including the expired ones.
	Advertised() []Advertised
	// Changed is ready after each change of Leases: a lease came, was prolonged, or ended, or
	// a problem came or went. It is ready after a change of Advertised too, once a second at
	// most. Changes that nobody took yet are one.
	Changed() <-chan struct{}
}
