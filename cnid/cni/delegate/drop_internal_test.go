// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"testing"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// All but the dropped routes of the main table stays as the plugin has written it, in every
// version of CNI.
func TestResult_RoutesDropped_RestUnchanged(t *testing.T) {
	everything := func(route ifdriver.ResultRoute) bool { return route.Dst.Bits() == 0 }
	for name, c := range map[string]struct{ text, want string }{
		"CNI 1.1": {
			`{"cniVersion":"1.1.0","routes":[{"dst":"0.0.0.0/0","gw":"192.0.2.1"},{"dst":"::/0"},{"dst":"0.0.0.0/0","table":100},{"dst":"192.0.3.0/24","x":18446744073709551615}],"x":1}`,
			`{"cniVersion":"1.1.0","routes":[{"dst":"0.0.0.0/0","table":100},{"dst":"192.0.3.0/24","x":18446744073709551615}],"x":1}`,
		},
		"no route is left":  {`{"cniVersion":"1.0.0","routes":[{"dst":"0.0.0.0/0"}]}`, `{"cniVersion":"1.0.0"}`},
		"there was none":    {`{"cniVersion":"1.0.0"}`, `{"cniVersion":"1.0.0"}`},
		"the list is null":  {`{"cniVersion":"1.0.0","routes":null}`, `{"cniVersion":"1.0.0"}`},
		"before CNI 0.3":    {`{"cniVersion":"0.2.0","ip4":{"ip":"192.0.2.5/24","routes":[{"dst":"0.0.0.0/0"},{"dst":"192.0.3.0/24"}]},"ip6":null}`, `{"cniVersion":"0.2.0","ip4":{"ip":"192.0.2.5/24","routes":[{"dst":"192.0.3.0/24"}]},"ip6":null}`},
		"halves of a range": {`{"routes":[{"dst":"0.0.0.0/1"},{"dst":"128.0.0.0/1"}]}`, `{"routes":[{"dst":"0.0.0.0/1"},{"dst":"128.0.0.0/1"}]}`},
	} {
		got, err := withoutRoutes([]byte(c.text), everything)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
	if got, err := withoutRoutes([]byte(`{"routes":{}}`), everything); err == nil {
		t.Errorf("routes that are no list: %s", got)
	}
}
