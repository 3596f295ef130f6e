// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client runs DHCP clients: one goroutine for each interface and family, which feeds a
// state machine with packets, changes of the link and time. Leases are on disk before anybody
// hears of them, so a client that was killed goes on with its lease.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// Options configure a Manager.
type Options struct {
	// Folder has the leases. It is made if it is missing, for root alone.
	Folder string
	Log    *slog.Logger
	// Space is the network namespace of the interfaces. Nil: the namespace of the process.
	Space Space
}

// Space runs functions in a network namespace.
type Space interface {
	Do(run func() error) error
}

// here is the network namespace of the process.
type here struct{}

// Do implements Space.
func (here) Do(run func() error) error { return run() }

// Manager runs clients. It is a dhcp.Clients.
type Manager struct {
	folder  folder
	log     *slog.Logger
	space   Space
	machine dhcp.Machine
	changed chan struct{}

	// setting is held by Set and by the end of Run, which start and end runners.
	setting sync.Mutex
	closed  bool
	wanted  map[dhcp.Key]dhcp.Config

	// listing is held while facts of the kernel are read and noted, so that a reader never notes
	// an older fact over a newer one. followed tells that the kernel reports changes.
	listing  sync.Mutex
	followed bool

	mu      sync.Mutex
	runners map[dhcp.Key]*runner
	held    map[dhcp.Key]dhcp.Held
	links   map[int]link
	advices map[int]advice
	// advertised has the texts that routers advertise, by link. lastChanged is the time of the last
	// report of a change in them.
	advertised  map[int]*dhcp.Advertised
	lastChanged time.Time
}

// New returns a Manager without clients.
func New(o Options) (*Manager, error) {
	const rootOnly = 0o700
	if err := os.MkdirAll(o.Folder, rootOnly); err != nil {
		return nil, fmt.Errorf("make the folder of DHCP leases: %w", err)
	}
	m := &Manager{
		folder: folder(o.Folder), log: o.Log, space: o.Space, changed: make(chan struct{}, 1),
		runners: map[dhcp.Key]*runner{}, held: map[dhcp.Key]dhcp.Held{}, links: map[int]link{}, advices: map[int]advice{},
		advertised: map[int]*dhcp.Advertised{},
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.space == nil {
		m.space = here{}
	}
	var err error
	if m.machine, err = m.folder.machine(time.Now()); err != nil {
		return nil, fmt.Errorf("read what identifies the host to DHCP servers: %w", err)
	}
	return m, nil
}

// Leases returns all clients with what they hold.
func (m *Manager) Leases() []dhcp.Held {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.held), func(a, b dhcp.Held) int {
		return cmp.Or(cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Family, b.Family))
	})
}

// Changed is ready after each change of Leases.
func (m *Manager) Changed() <-chan struct{} { return m.changed }

// Set starts, changes and ends clients. See dhcp.Clients.
func (m *Manager) Set(configs []dhcp.Config) error {
	m.setting.Lock()
	defer m.setting.Unlock()
	if m.closed {
		return errors.New("set the DHCP clients: the process is about to end")
	}
	wanted, err := byKey(configs)
	if m.wanted != nil && reflect.DeepEqual(wanted, m.wanted) {
		return err
	}
	errs := []error{err, m.listOnce()}
	for key, r := range m.runners {
		config, has := wanted[key]
		if !has || !reflect.DeepEqual(config, r.config) {
			m.end(r, !has)
		}
	}
	errs = append(errs, m.folder.keepOnly(slices.Collect(maps.Keys(wanted))))
	for key, config := range wanted {
		if m.runners[key] == nil {
			m.start(key, config)
		}
	}
	m.wanted = wanted
	return errors.Join(errs...)
}

// byKey returns the configuration of each client, with its family alone.
func byKey(configs []dhcp.Config) (map[dhcp.Key]dhcp.Config, error) {
	wanted := map[dhcp.Key]dhcp.Config{}
	var errs []error
	for _, c := range configs {
		if !isName(c.Interface) {
			errs = append(errs, fmt.Errorf("no interface can have the name %s", quote.Text(c.Interface)))
			continue
		}
		if c.V4 != nil {
			wanted[dhcp.Key{Interface: c.Interface, Family: ipfamily.IPv4}] = dhcp.Config{Interface: c.Interface, V4: c.V4}
			errs = append(errs, c.V4.Check(c.Interface))
		}
		if c.V6 != nil {
			wanted[dhcp.Key{Interface: c.Interface, Family: ipfamily.IPv6}] = dhcp.Config{Interface: c.Interface, V6: c.V6}
			errs = append(errs, c.V6.Check(c.Interface))
		}
	}
	return wanted, errors.Join(errs...)
}

// isName reports whether an interface can have a name. Files have it too.
func isName(name string) bool {
	return name != "" && len(name) < unix.IFNAMSIZ && name != "." && name != ".." &&
		!strings.ContainsAny(name, "/: \t\n\x00")
}

func (m *Manager) start(key dhcp.Key, config dhcp.Config) {
	r := &runner{
		key: key, config: config, log: m.log, folder: m.folder, machine: m.machine, space: m.space, listener: m,
		events: make(chan func(*runner), waiting), inbox: make(inbox, waiting), done: make(chan struct{}),
	}
	m.mu.Lock()
	l := m.linkOf(key.Interface)
	a := m.advices[l.index]
	m.runners[key] = r
	m.mu.Unlock()
	r.begin(l, a)
	go r.run()
}

// linkOf returns the link of a name; m.mu is locked.
func (m *Manager) linkOf(name string) link {
	for _, l := range m.links {
		if l.name == name {
			return l
		}
	}
	return link{name: name}
}

// end ends a client and waits for it. The lease stays on disk unless it is given back.
func (m *Manager) end(r *runner, release bool) {
	r.events <- func(r *runner) { r.end(release) }
	<-r.done
	m.mu.Lock()
	delete(m.runners, r.key)
	if release {
		delete(m.held, r.key)
	}
	m.mu.Unlock()
	m.notify()
}

// tell publishes what a client holds.
func (m *Manager) tell(h dhcp.Held) {
	m.mu.Lock()
	before, known := m.held[h.Key]
	m.held[h.Key] = h
	m.mu.Unlock()
	if !known || before.Lease != h.Lease || before.Problem != h.Problem || before.Index != h.Index {
		m.notify()
	}
}

func (m *Manager) notify() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Run follows the links until the context ends. Clients then end too; their leases stay on
// disk and on the interfaces, for the next process.
func (m *Manager) Run(ctx context.Context) error {
	defer m.close()
	for {
		err := m.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		// The kernel's messages exceeded the buffer, or the subscription failed: the links are
		// listed to find the missed facts.
		m.log.Warn("The links have to be listed again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// follow handles what the kernel tells, until the socket fails or the context ends.
func (m *Manager) follow(ctx context.Context) error {
	var socket *nl.NetlinkSocket
	err := m.space.Do(func() (err error) {
		socket, err = subscribe()
		return err
	})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, socket.Close)
	defer func() {
		if stop() {
			socket.Close()
		}
	}()
	m.listing.Lock()
	defer m.listing.Unlock()
	if err := m.relist(); err != nil {
		return err
	}
	m.followed = true
	for {
		m.listing.Unlock()
		messages, _, err := socket.Receive()
		m.listing.Lock()
		if err != nil {
			return err
		}
		for _, message := range messages {
			if n, ok := read(message); ok {
				m.handle(n)
			}
		}
	}
}

// listOnce reads all links, unless Run has done so.
func (m *Manager) listOnce() error {
	m.listing.Lock()
	defer m.listing.Unlock()
	if m.followed {
		return nil
	}
	return m.relist()
}

// relist reads all links, and tells clients what changed.
func (m *Manager) relist() error {
	var notices []notice
	err := m.space.Do(func() (err error) {
		notices, err = listLinks()
		return err
	})
	if err != nil {
		return err
	}
	there := map[int]bool{}
	for _, n := range notices {
		if n.changed != nil {
			there[n.changed.index] = true
		}
	}
	m.mu.Lock()
	var gone []int
	for index := range m.links {
		if !there[index] {
			gone = append(gone, index)
		}
	}
	m.mu.Unlock()
	for _, index := range gone {
		m.handle(notice{gone: index})
	}
	for _, n := range notices {
		m.handle(n)
	}
	return nil
}

// handle notes a fact of the kernel, and tells it to the clients of the link.
func (m *Manager) handle(n notice) {
	switch {
	case n.changed != nil:
		m.onLink(*n.changed)
	case n.gone != 0:
		m.onGone(n.gone)
	case n.advised != 0:
		m.mu.Lock()
		m.advices[n.advised] = n.advice
		name := m.links[n.advised].name
		m.mu.Unlock()
		m.deliver(name, ipfamily.IPv6, func(r *runner) { r.onAdvice(n.advice) })
	case n.duplicate.IsValid():
		m.mu.Lock()
		name := m.links[n.index].name
		m.mu.Unlock()
		m.deliver(name, ipfamily.IPv6, func(r *runner) { r.onDuplicate(n.duplicate) })
	case len(n.options) > 0:
		m.onOptions(n.index, n.options, time.Now())
	}
}

func (m *Manager) onLink(l link) {
	m.mu.Lock()
	before, known := m.links[l.index]
	m.links[l.index] = l
	m.mu.Unlock()
	if known && before.same(l) {
		return
	}
	if known && before.name != l.name {
		m.toBoth(before.name, link{name: before.name})
	}
	m.toBoth(l.name, l)
}

func (m *Manager) onGone(index int) {
	m.mu.Lock()
	before, known := m.links[index]
	delete(m.links, index)
	delete(m.advices, index)
	delete(m.advertised, index)
	m.mu.Unlock()
	if known {
		m.toBoth(before.name, link{name: before.name})
	}
}

func (m *Manager) toBoth(name string, l link) {
	for _, family := range ipfamily.Both {
		m.deliver(name, family, func(r *runner) { r.onLink(l) })
	}
}

// deliver hands an event to a client, if there is one.
func (m *Manager) deliver(name string, family ipfamily.Family, event func(*runner)) {
	m.mu.Lock()
	r := m.runners[dhcp.Key{Interface: name, Family: family}]
	m.mu.Unlock()
	if r == nil {
		return
	}
	select {
	case r.events <- event:
	case <-r.done:
	}
}

// close ends all clients without giving anything back.
func (m *Manager) close() {
	m.setting.Lock()
	defer m.setting.Unlock()
	m.closed = true
	for _, r := range m.runners {
		m.end(r, false)
	}
}
