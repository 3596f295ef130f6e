// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import "maps"

// share is how many objects of a tenant are processed in one round.
const share = 32

// Rounds divide the time of a controller between tenants. In each round a share of the objects
// of each tenant is processed. An object gets the present round, or a later one if its tenant
// has had its share of that. So an object of a tenant with few others waits for the share of each
// tenant at most; and no tenant waits for ever, whatever the others do. Rounds are not safe for
// concurrent use. The zero value is ready to use.
type Rounds struct {
	now int
	// seats has, for each tenant, the last round with an object of it, from now on.
	seats map[string]seat
}

// seat is a round, and how many objects of the tenant are in it.
type seat struct{ round, taken int }

// Take gives an object of a tenant its round.
func (r *Rounds) Take(tenant string) (round int) {
	at := r.seats[tenant]
	switch {
	case at.round < r.now:
		at = seat{round: r.now}
	case at.taken == share:
		at = seat{round: at.round + 1}
	}
	at.taken++
	if r.seats == nil {
		r.seats = map[string]seat{}
	}
	r.seats[tenant] = at
	return at.round
}

// Begin notes that an object of a round is processed.
func (r *Rounds) Begin(round int) {
	if round > r.now {
		r.now = round
		maps.DeleteFunc(r.seats, func(_ string, at seat) bool { return at.round < r.now })
	}
}

// Priority returns the priority of requests in a round: the earlier the round, the higher.
func Priority(round int) int { return -round }
