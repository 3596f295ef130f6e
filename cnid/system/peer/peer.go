// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peer refuses clients of the daemon's sockets that do not control the node anyway
// (docs/design/054). A socket is a file, and a pod that mounts its folder opens it as root.
package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Errors about clients that are refused.
var (
	errUser = errors.New("the client is not root of the node")
	// errUnseen has the remedy: only a daemon without it sees no processes of the node.
	errUnseen = errors.New(
		"the client is not in the daemon's PID namespace, or has ended; the daemon needs that of the node (hostPID: true)",
	)
	errSpace  = errors.New("the client is in a user namespace of its own")
	errRights = errors.New("the client lacks CAP_SYS_ADMIN, as root of a container does that is not privileged")
)

// soPeerPIDFD is SO_PEERPIDFD of linux/socket.h, since Linux 6.5.
const soPeerPIDFD = 77

// tellEvery limits how often refused clients can write to the log.
const tellEvery = time.Second

// Check returns nil for a connection from a process that controls the node: root, in the
// user namespace of the daemon, with CAP_SYS_ADMIN.
func Check(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("look at the client: %w", err)
	}
	var verdict error
	if err := raw.Control(func(fd uintptr) { verdict = check(int(fd)) }); err != nil {
		return fmt.Errorf("look at the client: %w", err)
	}
	return verdict
}

func check(socket int) error {
	who, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return fmt.Errorf("read the client's credentials: %w", err)
	}
	if who.Uid != 0 {
		return fmt.Errorf("%w, but user %d", errUser, who.Uid)
	}
	if who.Pid == 0 {
		return errUnseen
	}
	process, err := open(socket, int(who.Pid))
	if err != nil {
		return fmt.Errorf("%w: %w", errUnseen, err)
	}
	defer unix.Close(process)
	if err := rights(fmt.Sprintf("/proc/%d", who.Pid)); err != nil {
		return err
	}
	// The number still belongs to the client, so the data read were about it.
	if err := unix.PidfdSendSignal(process, 0, nil, 0); err != nil {
		return fmt.Errorf("%w: %w", errUnseen, err)
	}
	return nil
}

// open returns a descriptor of the process that has connected. Before Linux 6.5 it is found
// by its number.
func open(socket, pid int) (int, error) {
	fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, soPeerPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return unix.PidfdOpen(pid, 0)
	}
	return fd, err
}

// rights checks a process by its folder in /proc.
func rights(folder string) error {
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return fmt.Errorf("read the daemon's user namespace: %w", err)
	}
	space, err := os.Readlink(folder + "/ns/user")
	if err != nil {
		return fmt.Errorf("%w: %w", errUnseen, err)
	}
	if space != own {
		return errSpace
	}
	text, err := os.ReadFile(folder + "/status")
	if err != nil {
		return fmt.Errorf("%w: %w", errUnseen, err)
	}
	_, after, _ := strings.Cut(string(text), "\nCapEff:\t")
	mask, _, _ := strings.Cut(after, "\n")
	has, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		return fmt.Errorf("read the client's capabilities: %w", err)
	}
	if has&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return errRights
	}
	return nil
}

// verdict is the key of a connection's verdict in its context.
type verdict struct{}

// Judged returns the context of a connection with the verdict about its client, for
// http.Server.ConnContext.
func Judged(ctx context.Context, conn net.Conn) context.Context {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, verdict{}, result{Check(local)})
}

type result struct{ err error }

// Only lets requests of clients through that Judged has found to be right. Others are
// answered with 403 and the cause.
func Only(next http.Handler, log *slog.Logger) http.Handler {
	refusals := teller{log: log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, ok := r.Context().Value(verdict{}).(result)
		if !ok {
			got.err = errors.New("the client is not known")
		}
		if got.err != nil {
			refusals.refused(r.URL.Path, got.err)
			http.Error(w, "refused: "+got.err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// teller logs refusals, one per tellEvery.
type teller struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

func (t *teller) refused(path string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.last) >= tellEvery {
		t.log.Warn("refused a client of the socket", "path", path, "error", err)
		t.last = now
	}
}
