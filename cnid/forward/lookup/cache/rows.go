// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// RowsAtMost is the capacity of the table.
const RowsAtMost = 65536

const (
	// perVPC and perInterface are how many rows packets may use. A row that is leaving
	// counts for the table alone.
	perVPC, perInterface = 1024, 256
	// grace is how long a row that ended, or the node of a row that changed, is still
	// recognized: packets may be under way.
	grace = time.Second
)

// row is a row of the table.
type row struct {
	state.Cached
	// vpcUID is the UID of the VPC. node and nodeUID are the name and UID of the row's node.
	vpcUID, node, nodeUID string
	// ifindex is the interface whose packet was first; 0: unknown.
	ifindex int
	// since is when it was read last, due when it is to be read again, deadline when it
	// ends without that.
	since, due, deadline time.Duration
}

func (r *row) key() Key { return Key{VNI: r.VNI, IP: r.IP} }

// rows are all rows that the table has or may have.
type rows struct {
	all map[Key]*row
	// byVNI are the same, by their VNIs.
	byVNI map[uint32]*group
	// leaving are those that packets do not use any more. nextEnd is when the first of
	// them is to be deleted.
	leaving map[Key]*row
	nextEnd time.Duration
}

// group are the rows of a VNI.
type group struct {
	// uid is the UID of the VPC whose rows packets use. live is the number of these rows.
	uid  string
	live int
	rows map[Key]*row
}

func newRows() rows {
	return rows{all: map[Key]*row{}, byVNI: map[uint32]*group{}, leaving: map[Key]*row{}}
}

// add adds a row, or replaces the one of its key.
func (r *rows) add(one *row) {
	r.remove(one.key())
	r.all[one.key()] = one
	g := r.byVNI[one.VNI]
	if g == nil {
		g = &group{rows: map[Key]*row{}}
		r.byVNI[one.VNI] = g
	}
	g.rows[one.key()] = one
	if one.Gone {
		r.leave(one)
		return
	}
	g.uid = one.vpcUID
	g.live++
}

func (r *rows) leave(one *row) {
	if len(r.leaving) == 0 || one.Until < r.nextEnd {
		r.nextEnd = one.Until
	}
	r.leaving[one.key()] = one
}

func (r *rows) remove(key Key) {
	one := r.all[key]
	if one == nil {
		return
	}
	g := r.byVNI[key.VNI]
	if !one.Gone {
		g.live--
	}
	delete(r.all, key)
	delete(r.leaving, key)
	delete(g.rows, key)
	if len(g.rows) == 0 {
		delete(r.byVNI, key.VNI)
	}
}

// gone ends a row: no packet uses it any more, and it is deleted at the given time.
func (r *rows) gone(one *row, until time.Duration) {
	r.byVNI[one.VNI].live--
	one.Gone, one.Until = true, until
	r.leave(one)
}

// ended are the rows that are to be deleted now. Until they have been, they come again,
// after grace each.
func (r *rows) ended(now time.Duration) (list []Key) {
	if len(r.leaving) == 0 || now < r.nextEnd {
		return nil
	}
	r.nextEnd = now + grace
	for key, one := range r.leaving {
		if one.Until <= now {
			list = append(list, key)
			continue
		}
		r.nextEnd = min(r.nextEnd, one.Until)
	}
	return list
}

// excess is the row that has to end before another one of the interface comes, or nil: the
// one unused longest of an interface or VPC that has as many as it may.
func (r *rows) excess(vni uint32, ifindex int) *row {
	g := r.byVNI[vni]
	if g == nil {
		return nil
	}
	if ifindex != 0 {
		mine := func(one *row) bool { return one.ifindex == ifindex }
		if one, count := g.oldest(mine); count >= perInterface {
			return one
		}
	}
	if g.live < perVPC {
		return nil
	}
	one, _ := g.oldest(func(*row) bool { return true })
	return one
}

// oldest is the row unused longest of those that packets use, and their number.
func (g *group) oldest(of func(*row) bool) (oldest *row, count int) {
	for _, one := range g.rows {
		if one.Gone || !of(one) {
			continue
		}
		count++
		if oldest == nil || one.Used < oldest.Used || one.Used == oldest.Used && one.IP.Less(oldest.IP) {
			oldest = one
		}
	}
	return oldest, count
}

// fullest selects the VNI with the most rows that packets use, and returns its row that is
// unused longest. It returns nil if packets use no row.
func (r *rows) fullest() *row {
	var most uint32
	live := 0
	for vni, g := range r.byVNI {
		if g.live > live || g.live == live && vni < most {
			most, live = vni, g.live
		}
	}
	if live == 0 {
		return nil
	}
	one, _ := r.byVNI[most].oldest(func(*row) bool { return true })
	return one
}
