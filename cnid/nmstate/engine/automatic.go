// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic/serve"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/client"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// ErrNotServed reports that no process of the host runs DHCP clients.
var ErrNotServed = errors.New(
	"no process runs DHCP clients on this host: start Alioth's daemon, or aliothctl state dhcp",
)

// keepAutomatic lets the host keep automatic settings in the folder of the transactions.
func (e *Engine) keepAutomatic() error {
	boot, err := transaction.BootID()
	if err != nil {
		return err
	}
	e.store = automatic.NewStore(e.cfg.Dir, boot)
	e.host.Keep(e.store)
	return nil
}

// sayUnusedDNS sets auto-dns: false on interfaces that the kernel configures by itself. No
// document has set autoconf on them, so no program uses name servers of their routers. A document
// that sets autoconf means auto-dns too, unless the document was made from the shown state.
func sayUnusedDNS(state *document.State) {
	for _, i := range state.Interfaces {
		if i.IPv6 != nil && i.IPv6.Autoconf != nil && *i.IPv6.Autoconf && i.IPv6.AutoDNS == nil {
			i.IPv6.AutoDNS = new(false)
		}
	}
}

// ServeDHCP runs the wanted DHCP clients until ctx ends. One process of a host does so at a
// time: the others wait. ready is closed when the clients run, unless it is nil.
func (e *Engine) ServeDHCP(ctx context.Context, ready chan<- struct{}) error {
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the name of the host: %w", err)
	}
	log := slog.New(slog.NewTextHandler(e.cfg.Log, nil))
	clients, err := client.New(client.Options{Folder: filepath.Join(e.cfg.Dir, "leases"), Log: log, Space: space{e.space}})
	if err != nil {
		return err
	}
	server := serve.New(serve.Config{
		Store: e.store, Host: e.host, Clients: clients, Hostname: hostname, Log: e.cfg.Log,
		Rules: serveRules{e},
	})
	running, end := context.WithCancel(ctx)
	followed := make(chan error, 1)
	go func() { followed <- clients.Run(running) }()
	err = server.Run(ctx, ready)
	end()
	return errors.Join(err, <-followed)
}

// space is the client.Space of an engine.
type space struct{ in ns.NetNS }

// Do implements client.Space.
func (s space) Do(run func() error) error { return s.in.Do(func(ns.NetNS) error { return run() }) }

// serveRules is the serve.Rules of an engine.
type serveRules struct{ *Engine }

// IsReserved implements serve.Rules.
func (r serveRules) IsReserved(address netip.Prefix) bool {
	return r.cfg.Others.Address != nil && r.cfg.Others.Address(address)
}

// IsPending implements serve.Rules.
func (r serveRules) IsPending() bool { return r.transactions.IsOpen() }

// IsTransaction implements serve.Rules.
func (serveRules) IsTransaction(path string) bool { return transaction.IsRecord(path) }

// Restore applies the committed state again, as the unit does at each boot. Until that is done
// and interfaces with DHCP have addresses, it runs the clients, unless another process does.
// A server that does not answer takes nothing else away: the daemon asks again later.
func (e *Engine) Restore(ctx context.Context) error {
	committed, err := e.transactions.Committed()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(committed.Interfaces, asksForAddresses) {
		_, err = e.Apply(ctx, committed, transaction.Options{Timeout: DefaultTimeout})
		return err
	}
	serving, end := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- e.ServeDHCP(serving, ready) }()
	served, err := e.store.Served()
	for err == nil && !served {
		select {
		case <-ready:
			served = true
		case err = <-ended:
			ended <- err
		}
	}
	if err == nil {
		_, err = e.Apply(ctx, committed, transaction.Options{Timeout: DefaultTimeout, NoWait: true})
	}
	if err == nil {
		if late := e.ready(ctx, committed.Interfaces); late != nil {
			fmt.Fprintf(e.cfg.Log, "%v; going on without\n", late)
		}
	}
	end()
	if failure := <-ended; failure != nil && !errors.Is(failure, context.Canceled) {
		err = errors.Join(err, failure)
	}
	return err
}

func asksForAddresses(i document.Interface) bool {
	asks := func(ip *document.IP) bool { return ip != nil && ip.DHCP != nil && *ip.DHCP }
	return asks(i.IPv4) || asks(i.IPv6)
}

// lookAgain is the time between two looks for addresses.
const lookAgain = 250 * time.Millisecond

// readyAfter waits for the addresses that a change has to wait for.
func (e *Engine) readyAfter(ctx context.Context, changed []document.Interface) error {
	return e.ready(
		ctx,
		slices.DeleteFunc(slices.Clone(changed), func(i document.Interface) bool { return !automatic.IsAwaited(i) }),
	)
}

// ready waits until interfaces have the addresses that they ask for. The error says which has
// none, and why. A boot waits for more interfaces than a change: nothing asks afterwards whether
// the node is reached.
func (e *Engine) ready(ctx context.Context, changed []document.Interface) error {
	limited, cancel := context.WithTimeout(ctx, DefaultProbeLimit)
	defer cancel()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	var last error
	for {
		err := e.lacking(limited, changed)
		if err == nil {
			return nil
		}
		if last == nil || limited.Err() == nil {
			last = err // keeps this error, and not the later one about the deadline
		}
		select {
		case <-limited.Done():
			return last
		case <-again.C:
		}
	}
}

// lacking returns which interfaces have no address, and why.
func (e *Engine) lacking(ctx context.Context, wanted []document.Interface) error {
	wanted = slices.DeleteFunc(
		slices.Clone(wanted),
		func(i document.Interface) bool { return automatic.HasAddresses(i, document.Interface{}) },
	)
	if len(wanted) == 0 {
		return nil // It waits for none.
	}
	state, err := e.host.Show(ctx)
	if err != nil {
		return err
	}
	known, err := e.store.Known()
	if err != nil {
		return err
	}
	var errs []error
	for _, want := range wanted {
		at := slices.IndexFunc(state.Interfaces, func(i document.Interface) bool { return i.Name == want.Name })
		if at >= 0 && !automatic.HasAddresses(want, state.Interfaces[at]) {
			errs = append(errs, automatic.Lacking(want, known))
		}
	}
	return errors.Join(errs...)
}
