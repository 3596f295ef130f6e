// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/peer"
	"github.com/alioth-net/alioth/test/needs"
)

// clientVariable makes the test binary a client of the socket that it names; with
// plainVariable it first becomes root without the capability that privileged containers have.
const clientVariable, plainVariable = "ALIOTH_PEER_TEST_SOCKET", "ALIOTH_PEER_TEST_PLAIN"

func TestMain(m *testing.M) {
	socket := os.Getenv(clientVariable)
	if socket == "" {
		os.Exit(m.Run())
	}
	if err := play(socket); err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
}

// play prints the answer of the server.
func play(socket string) error {
	if os.Getenv(plainVariable) != "" {
		return playPlain()
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	answer, err := client.Get("http://daemon/")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

// playPlain executes the client with the capabilities of a container that is not privileged.
func playPlain() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_ADMIN, 0, 0, 0); err != nil {
		return err
	}
	if err := os.Unsetenv(plainVariable); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args[:1], os.Environ())
}

// serve returns a socket that everybody may open: the file's mode is a second protection.
func serve(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer") // which all users may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o755, socket: 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "acted") })
	server := &http.Server{Handler: peer.Only(answer, slog.New(slog.NewTextHandler(t.Output(), nil))), ConnContext: peer.Judged}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return socket
}

func TestPeer_EachProcess_OnlyNodeControllersServed(t *testing.T) {
	needs.Root(t, "to run processes as other users")
	socket := serve(t)
	// The test binary may be in a folder that other users can't enter.
	program := filepath.Join(filepath.Dir(socket), "client")
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	rootIs := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	}
	for _, tc := range []struct {
		name  string
		as    *syscall.SysProcAttr
		plain bool
		want  string
	}{
		{"root of the node", nil, false, "acted"},
		{"another user", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, false, "user 65534"},
		{"root of a user namespace", &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, UidMappings: rootIs(65534), GidMappings: rootIs(65534),
			Credential: &syscall.Credential{NoSetGroups: true},
		}, false, "user 65534"},
		{"root of a user namespace, which is root of the node", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: rootIs(0), GidMappings: rootIs(0)}, false, "user namespace of its own"},
		{"root of a container that is not privileged", nil, true, "CAP_SYS_ADMIN"},
		{"root in a PID namespace below", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}, false, "acted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := exec.Command(program)
			client.Env = append(os.Environ(), clientVariable+"="+socket)
			if tc.plain {
				client.Env = append(client.Env, plainVariable+"=1")
			}
			client.SysProcAttr = tc.as
			output, err := client.CombinedOutput()
			if err != nil || !strings.Contains(string(output), tc.want) || strings.Contains(string(output), "acted") != (tc.want == "acted") {
				t.Errorf("%v, %q; want %q", err, output, tc.want)
			}
		})
	}
}

func TestPeer_VerdictMissing_RequestRefused(t *testing.T) {
	handler := peer.Only(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was served") }), slog.New(slog.DiscardHandler))
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	if answer.Code != http.StatusForbidden {
		t.Errorf("status %d, want 403", answer.Code)
	}
}
