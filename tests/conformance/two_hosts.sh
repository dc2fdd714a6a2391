#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A command under mpirun on two hosts, imitated on one machine.
#
#     two_hosts.sh PROCESSES COMMAND...
#
# Starts so many processes of the command on either host.  A host is a network
# of its own, a name, a /dev/shm and System V IPC of its own (Linux namespaces);
# a virtual cable joins the two, and nothing else but the file system and the
# kernel.  Open MPI's daemon on the second one is started as ssh would start it,
# but by nsenter.  At the end the bytes that went through the cable are told.
#
# HOST_ONE and HOST_TWO hold variables for the environment of either, such as
# CUDA_VISIBLE_DEVICES=0,1; MPIRUN is what starts mpirun (mpirun).  77: this
# machine makes no namespaces, or has no mpirun.
set -u

if [ -z "${TWO_HOSTS-}" ]; then
    command -v "${MPIRUN:-mpirun}" >/dev/null || exit 77
    user=
    [ "$(id -u)" = 0 ] || user=-r
    unshare $user -n -u -m -i true 2>/dev/null || exit 77
    TWO_HOSTS=1 exec unshare $user -n -u -m -i /bin/sh "$0" "$@"
fi

each=$1
shift
agent=$(mktemp)
other=
trap '[ -z "$other" ] || kill "$other"; rm -f "$agent"' EXIT

hostname one 2>/dev/null || echo one >/proc/sys/kernel/hostname || exit 77
mount -t tmpfs none /dev/shm || exit 77
unshare -n -u -m -i /bin/sh -c 'mount -t tmpfs none /dev/shm
    ip link set lo up
    hostname two 2>/dev/null || echo two >/proc/sys/kernel/hostname
    exec sleep 100000' &
other=$!
i=0
until [ "$(nsenter -t $other -u uname -n 2>/dev/null)" = two ]; do
    i=$((i + 1))
    [ $i -lt 100 ] || exit 77
    sleep 0.1
done
ip link set lo up
ip link add cable0 type veth peer name cable1 netns $other || exit 77
ip addr add 10.77.0.1/24 dev cable0
ip link set cable0 up
nsenter -t $other -n ip addr add 10.77.0.2/24 dev cable1
nsenter -t $other -n ip link set cable1 up

# What mpirun calls in the place of ssh: name of the host, command.
cat >"$agent" <<END
#!/bin/sh
shift
exec nsenter -t $other -n -u -m -i env ${HOST_TWO-} /bin/sh -c "\$*"
END
chmod +x "$agent"

env ${HOST_ONE-} OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="$agent" \
    OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp \
    OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 \
    OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 \
    "${MPIRUN:-mpirun}" --allow-run-as-root --host "one:$each,two:$each" \
    -np $((2 * each)) ${LD_LIBRARY_PATH:+-x LD_LIBRARY_PATH} "$@"
code=$?
awk '/cable0:/ { print "through the cable: " $10 " bytes to the second host, " \
    $2 " back" }' /proc/net/dev
exit $code
