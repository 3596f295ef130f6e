// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// The maps that hold the frontends, each once per family. The cost of a packet does not
// depend on their size, and a change of a Service changes its own elements only.
const (
	// fromOutside, fromInside and fromNodes map a frontend to a chain. The first is for
	// packets from outside, the second for packets of this node and its pods of the default
	// VPC, the third for packets of other nodes.
	fromOutsideMap = "from_outside"
	fromInsideMap  = "from_inside"
	fromNodesMap   = "from_nodes"
	// fromSelf does the same for packets of the node itself, if they differ from
	// fromInside.
	fromSelfMap = "from_self"
	// preserveMap leads to chains that preserve the addresses of clients from outside,
	// and that return.
	preserveMap = "preserve_client_ip"
	// sourceRangesMap leads to chains that drop clients from outside unless they are in
	// a source range, and that return for the others.
	sourceRangesMap = "source_ranges"
	// addressesSet has the addresses of frontends, without the node's own addresses, with
	// protocol and port 0.
	addressesSet = "addresses"
	// allPlaces, ownPlaces and placesHere map a frontend and a slot to a place.
	allPlaces  = "all"
	ownPlaces  = "own"
	placesHere = "here"
	// placesSet has the places: translated packets to them may be forwarded.
	placesSet = "places"
	// stayPrefix begins the names of the sets for session affinity: they repeat the
	// places of allPlaces, ownPlaces and placesHere, each behind its frontend.
	stayPrefix = "stay_"
)

// shape is the type of a map's key and data.
type shape struct {
	slot, verdict, place bool
	// at reports that the key continues with a place.
	at bool
}

// isJump reports whether the chains of a verdict map return.
func isJump(set *nftables.Set) bool {
	return strings.HasPrefix(set.Name, preserveMap) || strings.HasPrefix(set.Name, sourceRangesMap)
}

var frontendMaps = map[string]shape{
	fromOutsideMap: {
		verdict: true,
	}, fromInsideMap: {verdict: true}, fromNodesMap: {verdict: true}, fromSelfMap: {verdict: true},
	preserveMap: {verdict: true}, sourceRangesMap: {verdict: true},
	allPlaces: {slot: true, place: true}, ownPlaces: {slot: true, place: true}, placesHere: {slot: true, place: true},
	placesSet: {}, addressesSet: {},
	stayPrefix + allPlaces: {at: true}, stayPrefix + ownPlaces: {at: true}, stayPrefix + placesHere: {at: true},
}

// leadsTo is the data of an element: a chain, or an address and port, or nothing.
type leadsTo struct{ chain, place string }

// contents are the elements of a map by their keys.
type contents map[string]leadsTo

// contentsOf are the elements of all maps, by the names of these.
func contentsOf(frontends []*ruleset.Frontend) map[string]contents {
	all := map[string]contents{}
	for name := range frontendMaps {
		for _, family := range families() {
			all[mapName(name, family)] = contents{}
		}
	}
	for _, f := range frontends {
		family := ipfamily.Of(f.IP).Number()
		of := func(name string) contents { return all[mapName(name, family)] }
		of(fromOutsideMap)[keyOfFrontend(f)] = leadsTo{chain: outsideChainFor(f)}
		of(fromInsideMap)[keyOfFrontend(f)] = leadsTo{chain: chainFor(f, allPlaces, f.All)}
		fillSlots(f, of(allPlaces), of(placesSet), f.All)
		fillSlots(f, of(placesHere), of(placesSet), f.Here)
		if len(f.Own) > 0 {
			of(fromSelfMap)[keyOfFrontend(f)] = leadsTo{chain: chainFor(f, ownPlaces, f.Own)}
			fillSlots(f, of(ownPlaces), of(placesSet), f.Own)
		}
		if f.Affinity > 0 {
			fillStay(f, of(stayPrefix+allPlaces), f.All)
			fillStay(f, of(stayPrefix+ownPlaces), f.Own)
			fillStay(f, of(stayPrefix+placesHere), f.Here)
		}
		if f.Sources != nil {
			of(sourceRangesMap)[keyOfFrontend(f)] = leadsTo{chain: sourceRanges{f.Sources}.name()}
		}
		if !f.OfNode() {
			of(addressesSet)[keyOf(f.IP, 0, 0)] = leadsTo{}
		} else {
			of(fromNodesMap)[keyOfFrontend(f)] = leadsTo{chain: chainFor(f, placesHere, f.Here)}
		}
		if f.Preserves() {
			of(preserveMap)[keyOfFrontend(f)] = leadsTo{chain: preserve{f.Hidden}.name()}
		}
	}
	return all
}

func fillSlots(f *ruleset.Frontend, slots, places contents, list []netip.AddrPort) {
	for slot, place := range list {
		key := keyOfFrontend(f) + string(binaryutil.NativeEndian.PutUint32(uint32(slot)))
		slots[key] = leadsTo{place: placeText(place)}
		places[keyOf(place.Addr(), f.Protocol, place.Port())] = leadsTo{}
	}
}

func fillStay(f *ruleset.Frontend, stay contents, list []netip.AddrPort) {
	for _, place := range list {
		stay[keyOfFrontend(f)+placeText(place)] = leadsTo{}
	}
}

// placeText is the form of a place in registers.
func placeText(place netip.AddrPort) string {
	return string(place.Addr().AsSlice()) + padded(portOf(place.Port()))
}

func keyOfFrontend(f *ruleset.Frontend) string { return keyOf(f.IP, f.Protocol, f.Port) }

// keyOf concatenates what the rules load, each part padded to a register of 4
// bytes.
func keyOf(ip netip.Addr, protocol uint8, port uint16) string {
	return string(ip.AsSlice()) + padded([]byte{protocol}) + padded(portOf(port))
}

func portOf(port uint16) []byte { return binary.BigEndian.AppendUint16(nil, port) }

func padded(field []byte) string {
	register := make([]byte, 4)
	copy(register, field)
	return string(register)
}

func mapName(name string, family byte) string {
	if family == unix.NFPROTO_IPV4 {
		return name + "4"
	}
	return name + "6"
}

// mapSet is the declaration of a map; id is unique in the transaction.
func mapSet(name string, family byte, id uint32) *nftables.Set {
	kind, s := frontendMaps[name], &nftables.Set{Table: table(), ID: id, Name: mapName(name, family), Concatenation: true}
	ip := addressType(family)
	key := []nftables.SetDatatype{ip, nftables.TypeInetProto, nftables.TypeInetService}
	if kind.slot {
		key = append(key, nftables.TypeInteger)
	}
	if kind.at {
		key = append(key, ip, nftables.TypeInetService)
	}
	s.KeyType = nftables.MustConcatSetType(key...)
	switch {
	case kind.verdict:
		s.IsMap, s.DataType = true, nftables.TypeVerdict
	case kind.place:
		s.IsMap, s.DataType = true, nftables.MustConcatSetType(ip, nftables.TypeInetService)
	}
	return s
}

func addressType(family byte) nftables.SetDatatype {
	if family == unix.NFPROTO_IPV4 {
		return nftables.TypeIPAddr
	}
	return nftables.TypeIP6Addr
}

// addFrontendMaps declares the maps.
func addFrontendMaps(conn *nftables.Conn) error {
	id := uint32(len(accounts())*len(families()) + 1) // flow sets have the IDs up to this one
	for name := range frontendMaps {
		for _, family := range families() {
			id++
			if err := conn.AddSet(mapSet(name, family, id), nil); err != nil {
				return fmt.Errorf("add map %s: %w", mapName(name, family), err)
			}
		}
	}
	return nil
}

// element is the form of an element for the kernel.
func (l leadsTo) element(set *nftables.Set, key string) nftables.SetElement {
	e := nftables.SetElement{Key: []byte(key)}
	if l.chain != "" {
		e.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: l.chain}
		if isJump(set) {
			e.VerdictData.Kind = expr.VerdictJump
		}
	}
	if l.place != "" {
		e.Val = []byte(l.place)
	}
	return e
}

// same reports whether an element that was read has this data. For a verdict the library
// returns the attributes. The last one is the name of the chain.
func (l leadsTo) same(found nftables.SetElement) bool {
	if l.chain != "" {
		return bytes.HasSuffix(bytes.TrimRight(found.Val, "\x00"), []byte("\x00"+l.chain))
	}
	return string(found.Val) == l.place
}

// perMessage is how many elements one message has at most: attributes are 64 KiB
// long at most.
const perMessage = 256

// difference adds the deletion of surplus elements and the creation of missing ones to
// the transaction, and reports whether there are any.
func difference(conn *nftables.Conn, set *nftables.Set, found []nftables.SetElement, want contents) (bool, error) {
	var gone []nftables.SetElement
	come := maps.Clone(want)
	for _, e := range found {
		if to, ok := want[string(e.Key)]; ok && to.same(e) {
			delete(come, string(e.Key))
			continue
		}
		gone = append(gone, nftables.SetElement{Key: e.Key})
	}
	return replaceElements(conn, set, gone, come)
}

// replaceElements adds the replacement of elements to the transaction.
func replaceElements(conn *nftables.Conn, set *nftables.Set, gone []nftables.SetElement, want contents) (bool, error) {
	var come []nftables.SetElement
	for key, to := range want {
		come = append(come, to.element(set, key))
	}
	for chunk := range slices.Chunk(gone, perMessage) {
		if err := conn.SetDeleteElements(set, chunk); err != nil {
			return false, fmt.Errorf("delete elements of %s: %w", set.Name, err)
		}
	}
	for chunk := range slices.Chunk(come, perMessage) {
		if err := conn.SetAddElements(set, chunk); err != nil {
			return false, fmt.Errorf("add elements to %s: %w", set.Name, err)
		}
	}
	return len(gone)+len(come) > 0, nil
}

// heldFrontends is the kernel's state of frontends. The zero value is empty.
type heldFrontends struct {
	// chains are those that only some frontends need, by name, and whether they are
	// correct.
	chains map[string]bool
	// elements of the maps by the names of these.
	elements map[string][]nftables.SetElement
	// clients are the maps of these, by their names.
	clients map[string]bool
}

func readFrontends(conn *nftables.Conn, s ruleset.State) (heldFrontends, error) {
	held := heldFrontends{chains: map[string]bool{}, elements: map[string][]nftables.SetElement{}}
	var err error
	if held.clients, err = heldClients(conn); err != nil {
		return held, err
	}
	found, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return held, fmt.Errorf("list chains: %w", err)
	}
	needed := variableChains(s)
	for _, c := range found {
		if c.Table.Name != TableName || !strings.HasPrefix(c.Name, variablePrefix) {
			continue
		}
		want, ok := needed[c.Name]
		held.chains[c.Name] = ok && holdsChain(conn, want)
	}
	for name := range frontendMaps {
		for _, family := range families() {
			set := mapSet(name, family, 0)
			if held.elements[set.Name], err = conn.GetSetElements(set); err != nil {
				return held, fmt.Errorf("read map %s of packet filter table %s: %w", set.Name, TableName, err)
			}
		}
	}
	return held, nil
}

// putFrontends adds the changes to the transaction that make the maps, and the chains
// that only some frontends need, equal to the frontends. It reports whether there are
// any.
func putFrontends(conn *nftables.Conn, s ruleset.State, held heldFrontends) (changed bool, err error) {
	needed, clients := variableChains(s), clientMaps(s.Frontends)
	if changed, err = addClientMaps(conn, held.clients, clients); err != nil {
		return false, err
	}
	for name, c := range needed {
		if held.chains[name] {
			continue
		}
		changed = true
		added := conn.AddChain(&nftables.Chain{Name: name, Table: table()})
		conn.FlushChain(added)
		addRules(conn, added, c)
	}
	want := contentsOf(s.Frontends)
	for name := range frontendMaps {
		for _, family := range families() {
			set := mapSet(name, family, 0)
			differs, err := difference(conn, set, held.elements[set.Name], want[set.Name])
			if err != nil {
				return false, err
			}
			changed = changed || differs
		}
	}
	for name := range held.chains {
		if _, ok := needed[name]; !ok {
			changed = true
			conn.DelChain(&nftables.Chain{Name: name, Table: table()})
		}
	}
	return dropClientMaps(conn, held.clients, clients) || changed, nil
}

// updateFrontends writes the frontends to the kernel, in one transaction.
func updateFrontends(conn *nftables.Conn, s ruleset.State) (changed bool, err error) {
	held, err := readFrontends(conn, s)
	if err != nil {
		return false, err
	}
	if changed, err = putFrontends(conn, s, held); err != nil {
		return false, err
	}
	if err := conn.Flush(); err != nil {
		return false, fmt.Errorf("change ports of services in packet filter table %s: %w", TableName, err)
	}
	return changed, nil
}
