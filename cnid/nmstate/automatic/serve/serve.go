// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serve runs the DHCP clients of a host: it starts those that are wanted, and gives
// interfaces and the resolver what their leases have.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
)

// Host is the part of a host that leases change.
type Host interface {
	// Learn gives a family of an interface what a lease has.
	Learn(ctx context.Context, l kernel.Learned) error
	// Solicit asks the routers of an interface to advertise themselves.
	Solicit(ctx context.Context, name string) error
	// ReadResolver and WriteResolver read and replace the configuration of the resolver.
	ReadResolver() (document.Resolver, error)
	WriteResolver(r document.Resolver) error
	// Resolver and RestoreResolver do so with the bytes of its file.
	Resolver() (resolvconf.Copy, error)
	RestoreResolver(c resolvconf.Copy) error
}

// Rules has the limits that others set for the clients.
type Rules interface {
	// IsReserved reports whether an address must not be used.
	IsReserved(address netip.Prefix) bool
	// IsPending reports whether a change of the network may still be undone. The clients that it
	// has ended keep their leases until then.
	IsPending() bool
	// IsTransaction reports whether a file of the store's folder is the one that such a change
	// has.
	IsTransaction(path string) bool
}

// Config has what a Server works with.
type Config struct {
	Store   *automatic.Store
	Host    Host
	Clients dhcp.Clients
	// Hostname is the name of the host.
	Hostname string
	Rules    Rules
	// Log has a line for each failure.
	Log io.Writer
}

// Server runs the clients.
type Server struct {
	Config
	// last are the clients that ran after the last pass.
	last []dhcp.Config
	// logged is the failure that was logged last.
	logged string
}

// New returns a Server that has done nothing yet.
func New(cfg Config) *Server { return &Server{Config: cfg} }

// poll is how often the server looks without a notification: an address that somebody removes
// comes back then.
const poll = 10 * time.Second

// waitForLock is how often the server tries to become the one that runs the clients.
const waitForLock = 500 * time.Millisecond

// Run runs the clients until ctx ends. If another process runs them, it waits for its end.
// ready, if it is not nil, is closed after the first pass.
func (s *Server) Run(ctx context.Context, ready chan<- struct{}) error {
	release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(s.Store.Dir())
	}
	if err != nil {
		return fmt.Errorf("watch the wanted DHCP clients: %w", err)
	}
	defer func() { _ = watcher.Close() }()
	again := time.NewTicker(poll)
	defer again.Stop()
	s.tell(s.solicit(ctx))
	for ctx.Err() == nil {
		s.tell(s.Pass(ctx))
		if ready != nil {
			close(ready)
			ready = nil
		}
		s.wait(ctx, watcher, again.C)
	}
	return nil
}

// solicit asks all routers once: what they have told while no process listened is lost.
func (s *Server) solicit(ctx context.Context) error {
	w, err := s.Store.Wanted()
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range w.Interfaces {
		if i.IPv6 != nil && i.IPv6.Autoconf != nil && *i.IPv6.Autoconf {
			errs = append(errs, s.Host.Solicit(ctx, i.Name))
		}
	}
	return errors.Join(errs...)
}

// wait waits for a reason for another pass.
func (s *Server) wait(ctx context.Context, watcher *fsnotify.Watcher, again <-chan time.Time) {
	for {
		select {
		case event := <-watcher.Events:
			if !automatic.Concerns(event.Name) && !s.Rules.IsTransaction(event.Name) {
				continue
			}
		case <-ctx.Done():
		case <-s.Clients.Changed():
		case err := <-watcher.Errors:
			s.tell(fmt.Errorf("watch the wanted DHCP clients: %w", err))
		case <-again:
		}
		return
	}
}

func (s *Server) acquire(ctx context.Context) (release func(), err error) {
	again := time.NewTicker(waitForLock)
	defer again.Stop()
	for {
		release, served, err := s.Store.Serve()
		if err != nil || served {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-again.C:
		}
	}
}

// tell logs a failure that differs from the last one.
func (s *Server) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != s.logged {
		fmt.Fprintf(s.Log, "DHCP clients: %s\n", text)
	}
	s.logged = text
}

// Pass makes clients, interfaces and the resolver what they have to be once. One that fails
// keeps no other from it.
func (s *Server) Pass(ctx context.Context) error {
	var errs []error
	err := s.Store.Change(func(w *automatic.Wanted) error {
		errs = append(errs, s.start(w))
		held, now := s.held(), time.Now()
		earlier, err := s.Store.Known()
		known := automatic.Known{Routers: automatic.RoutersOf(w, s.Clients.Advertised(), earlier, now)}
		errs = append(errs, err)
		for _, h := range held {
			settings := w.Of(h.Key, h.Index)
			if settings == nil {
				continue // It ran before a change that may be undone.
			}
			errs = append(errs, s.Host.Learn(ctx, automatic.Learned(h, settings, now)))
			known.Clients = append(known.Clients, automatic.KnownOf(h, settings))
		}
		if errs = append(errs, s.resolve(w, known)); !w.Former { // the facts of a former boot are the source of w
			errs = append(errs, s.Store.PutKnown(known))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// start lets the wanted clients run, and those whose end may be undone.
func (s *Server) start(w *automatic.Wanted) error {
	wanted := w.Clients(s.Hostname)
	if s.Rules.IsPending() {
		for _, was := range s.last {
			if !slices.ContainsFunc(wanted, func(c dhcp.Config) bool { return c.Interface == was.Interface }) {
				wanted = append(wanted, was)
			}
		}
	}
	s.last = wanted
	return s.Clients.Set(wanted)
}

// held returns the clients with their leases. It drops a lease whose address must not be used,
// and leaves out a route to such addresses.
func (s *Server) held() []dhcp.Held {
	list := s.Clients.Leases()
	for n, h := range list {
		if !h.Lease.HasAddress() {
			continue
		}
		if s.Rules.IsReserved(h.Lease.Address) {
			list[n].Lease = nil
			list[n].Problem = dhcp.Problem{
				Text:  fmt.Sprintf("the server gave %s, which is reserved for Alioth", h.Lease.Address),
				Since: h.Lease.Acquired,
			}
			continue
		}
		allowed := *h.Lease
		allowed.Routes = slices.DeleteFunc(slices.Clone(allowed.Routes), func(r dhcp.Route) bool {
			return r.Destination.Bits() > 0 && s.Rules.IsReserved(r.Destination)
		})
		list[n].Lease = &allowed
	}
	return list
}

// resolve gives the resolver the known entries, after the static ones. Once nothing is known,
// resolve restores the former file.
func (s *Server) resolve(w *automatic.Wanted, known automatic.Known) error {
	if err := s.recognize(w); err != nil {
		return err
	}
	learns := known.HasResolver()
	switch {
	case !learns && w.Static == nil:
		return nil
	case !learns:
		static, file := *w.Static, w.File
		w.Static, w.File = nil, nil
		if file != nil {
			return s.Host.RestoreResolver(*file)
		}
		return s.Host.WriteResolver(static)
	case w.Static == nil:
		static, err := s.Host.ReadResolver()
		if err != nil {
			return err
		}
		file, err := s.Host.Resolver()
		if err != nil {
			return err
		}
		w.Static, w.File = &static, &file
	}
	return s.Host.WriteResolver(automatic.Resolver(*w.Static, known))
}

// recognize keeps the static configuration of an earlier boot if the file still has the content
// that leases gave it then. Another program of the host may have written the file since.
func (s *Server) recognize(w *automatic.Wanted) error {
	if !w.Former {
		return nil
	}
	known, err := s.Store.Known()
	if err != nil {
		return err
	}
	now, err := s.Host.ReadResolver()
	if err != nil {
		return err
	}
	if !resolvconf.Equal(now, automatic.Resolver(*w.Static, known)) {
		w.Static, w.File = nil, nil
	}
	w.Former = false
	return nil
}
